//! Rows in local variables: if a relation has at most one row, each column of the row is a Lua
//! local instead of a field of a Lua table.
//!
//! A column needs no local variable if it is a literal, or a column of another row in local
//! variables: then its expression is used directly. [`MethodWriter::row`] tells whether a row is in
//! locals or in a Lua table.

use super::expression::value;
use super::method::MethodWriter;
use super::row::{Row, Scalars};
use crate::ir::{Body, CollectionId, Expr, ExprKind};
use crate::plan::{Phase, Relation, Rows, RulePlan};
use crate::syntax::ast::Kind;

/// The most local variables that the rows of a method may take, of the 200 that a Lua function can
/// have.
const MAX_ROW_LOCALS: usize = 100;

impl MethodWriter<'_> {
    /// Whether keeping all relations with one row in locals leaves enough locals for everything
    /// else.
    pub(super) fn has_room_for_scalars(&self) -> bool {
        let input = self.program.collection(self.plan.input).width();
        let relations = self.plan.phases.iter().flat_map(|phase| &phase.relations);
        let widths = relations
            .filter(|relation| self.plan.rows_of(**relation) == Rows::One)
            .map(|relation| 1 + self.program.collection(relation.collection()).width());
        let tables = self.program.of_kind(Kind::Table);
        let changed = tables.filter(|table| self.only_change(*table).is_some());
        let pending = changed.map(|table| 2 + self.program.collection(table).width());
        2 * input + widths.sum::<usize>() + pending.sum::<usize>() <= MAX_ROW_LOCALS
    }

    /// Whether the one row of a relation in memory is in local variables.
    pub(super) fn is_scalar(&self, id: CollectionId) -> bool {
        self.has_scalars
            && self.plan.rows_of(Relation::Local(id)) == Rows::One
            && self.program.collection(id).kind != Kind::Table
    }

    /// Whether a method keeps the row that it may write into a table in local variables. It does so
    /// if there is only one such row, no aggregate needs the row as a Lua table, and the table is
    /// stored in the map.
    pub(super) fn is_pending_scalar(&self, table: CollectionId) -> bool {
        self.has_scalars
            && self.only_change(table).is_some()
            && self.views_of(table).is_empty()
            && !self.layouts.is_placed(table)
    }

    /// The row of a variable.
    pub(super) fn row(&self, variable: &str) -> Row {
        match self.scalars.get(variable) {
            Some(scalars) => Row::Scalars(scalars.clone()),
            None => Row::Table(variable.to_owned()),
        }
    }

    /// The request, whose columns are locals.
    pub(super) fn declare_request(&mut self, names: Vec<String>) {
        let name = self.name(Relation::Local(self.plan.input));
        match self.is_scalar(self.plan.input) {
            true => {
                let request = Scalars { is_there: "true".to_owned(), columns: names };
                self.scalars.insert(name, request);
            }
            false => self.declare(&name, &format!("{{ {} }}", names.join(", "))),
        }
    }

    /// Declares a relation of a phase, if its row is kept in local variables. Returns whether it
    /// is.
    pub(super) fn declare_scalar(&mut self, relation: Relation, phase: &Phase) -> bool {
        let Relation::Local(id) = relation else { return false };
        let is_scalar = self.is_scalar(id);
        if is_scalar {
            let only = (!self.may_come_twice(id)).then(|| phase.once.first()).flatten();
            self.declare_row(self.name(relation), id, only);
        }
        is_scalar
    }

    /// Declares local variables for a row. If only one rule produces the row, that rule is `only`.
    /// A column gets no variable if `only` gives it a value that the method already has.
    pub(super) fn declare_row(&mut self, name: String, id: CollectionId, only: Option<&RulePlan>) {
        let known = only.and_then(|plan| self.known_columns(plan));
        let mut columns = vec![];
        let mut locals = vec![];
        for at in 0..self.program.collection(id).width() {
            let column = known.as_ref().and_then(|known| known[at].clone());
            columns.push(column.unwrap_or_else(|| {
                locals.push(format!("{name}c{}", at + 1));
                locals[locals.len() - 1].clone()
            }));
        }
        self.declare(&name, "false");
        if !locals.is_empty() {
            self.out.put(format!("local {}", locals.join(", ")));
        }
        self.scalars.insert(name.clone(), Scalars { is_there: name, columns });
    }

    /// The columns of a rule's row: for each the Lua expression, if the method already has the
    /// value.
    pub(super) fn known_columns(&self, plan: &RulePlan) -> Option<Vec<Option<String>>> {
        let Body::Select(select) = &self.program.rules[plan.rule].body else { return None };
        let known = |expr: &Expr| match &expr.kind {
            ExprKind::Literal(literal) => Some(value(literal)),
            ExprKind::Column { source, column } => self.known_column(plan, *source, *column),
            _ => None,
        };
        Some(select.columns.iter().map(known).collect())
    }

    fn known_column(&self, plan: &RulePlan, source: usize, column: usize) -> Option<String> {
        let relation @ Relation::Local(_) = plan.sources[source] else { return None };
        Some(self.scalars.get(&self.name(relation))?.columns[column].clone())
    }
}
