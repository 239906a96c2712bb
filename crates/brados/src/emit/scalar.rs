//! Rows that are no tables: of a relation that has one row at most, each column is a local.
//!
//! A column that is a literal, or another such row's column, needs no local of its own: it is spelled as
//! what it is. Everywhere else a row is called by its name, and its columns are asked for by
//! [`MethodWriter::column`]; where a table is needed after all, [`MethodWriter::whole`] makes one.
//!
//! A stored row whose key is so spelled is looked up where it is first needed, once a request.

use super::encoding::{Typed, format, key, quoted, slots, unpacked};
use super::method::MethodWriter;
use super::place::find;
use super::rule::Target;
use crate::ir::{Body, CollectionId, Expr, ExprKind};
use crate::plan::{Phase, Relation, Rows, RulePlan};
use crate::syntax::ast::Kind;
use crate::value::{Base, Type};

/// Locals that rows of a method may take, of the 200 a Lua function has.
const MAX_ROW_LOCALS: usize = 100;
/// Locals that rows which were looked up may take besides.
const MAX_LOOKED_UP_LOCALS: usize = 30;

/// A row that is no table.
#[derive(Debug, Clone)]
pub(super) struct Scalars {
    /// Whether the row is there, as a condition.
    pub is_there: String,
    /// What each column is spelled as.
    pub columns: Vec<String>,
}

/// Stored rows that a method has looked up.
#[derive(Debug, Default)]
pub(super) struct LookedUp {
    /// The table and the columns of the key, and what the row is called.
    rows: Vec<(CollectionId, Vec<String>, String)>,
    /// What they are kept in, to be declared before all else.
    pub locals: Vec<String>,
}

impl MethodWriter<'_> {
    /// Whether the relations of a method with one row at most leave room for others among its locals.
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

    /// Whether the one row of a relation in memory is no table.
    fn is_scalar(&self, id: CollectionId) -> bool {
        self.has_scalars
            && self.plan.rows_of(Relation::Local(id)) == Rows::One
            && self.program.collection(id).kind != Kind::Table
    }

    /// Whether the one row that waits for the end of the request is no table: nothing that follows
    /// aggregates or knows places is told of it.
    pub(super) fn is_pending_scalar(&self, table: CollectionId) -> bool {
        self.has_scalars
            && self.only_change(table).is_some()
            && self.views_of(table).is_empty()
            && !self.layouts.is_placed(table)
    }

    /// What a column of a row is spelled as.
    pub(super) fn column(&self, row: &str, column: usize) -> String {
        match self.scalars.get(row) {
            Some(scalars) => scalars.columns[column].clone(),
            None => format!("{row}[{}]", column + 1),
        }
    }

    /// The columns of a row of a collection, with their types.
    pub(super) fn columns(&self, row: &str, id: CollectionId, count: usize) -> Vec<Typed> {
        (0..count).map(|at| (self.column(row, at), self.type_of(id, at))).collect()
    }

    /// A row as a table.
    pub(super) fn whole(&self, row: &str) -> String {
        match self.scalars.get(row) {
            Some(scalars) => format!("{{ {} }}", scalars.columns.join(", ")),
            None => row.to_owned(),
        }
    }

    /// The condition that a row is there.
    pub(super) fn is_there(&self, row: &str) -> String {
        self.scalars.get(row).map_or_else(|| row.to_owned(), |scalars| scalars.is_there.clone())
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

    /// Declares a relation of a phase, if its row is no table.
    pub(super) fn declare_scalar(&mut self, relation: Relation, phase: &Phase) -> bool {
        let Relation::Local(id) = relation else { return false };
        let is_scalar = self.is_scalar(id);
        if is_scalar {
            let only = (!self.may_come_twice(id)).then(|| phase.once.first()).flatten();
            self.declare_row(self.name(relation), id, only);
        }
        is_scalar
    }

    /// Declares a row that is no table. If the one rule that gives it is known, columns that are there
    /// already are spelled so.
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

    /// The columns of what a rule gives, as far as they are spelled already.
    fn known_columns(&self, plan: &RulePlan) -> Option<Vec<Option<String>>> {
        let Body::Select(select) = &self.program.rules[plan.rule].body else { return None };
        let known = |expr: &Expr| match &expr.kind {
            ExprKind::Literal(literal) => Some(super::expression::value(literal)),
            ExprKind::Column { source, column } => self.known_column(plan, *source, *column),
            _ => None,
        };
        Some(select.columns.iter().map(known).collect())
    }

    fn known_column(&self, plan: &RulePlan, source: usize, column: usize) -> Option<String> {
        let relation @ Relation::Local(_) = plan.sources[source] else { return None };
        Some(self.scalars.get(&self.name(relation))?.columns[column].clone())
    }

    /// Gives the columns of a row their values, but for those that are spelled so, and says that it is
    /// there. Answers false if the row is a table.
    pub(super) fn put_scalars(
        &mut self,
        head: CollectionId,
        columns: &[String],
        target: &Target,
    ) -> bool {
        let (Target::Only(name) | Target::OnlyOne(name) | Target::OnlyPending(name)) = target
        else {
            return false;
        };
        let Some(own) = self.scalars.get(name).map(|scalars| scalars.columns.clone()) else {
            return false;
        };
        match target {
            Target::OnlyOne(_) => self.put_one_of_many(head, name, &own, columns),
            _ => self.out.put(assigned(name, &own, columns)),
        }
        true
    }

    /// Several rules may give the row: all the same, or the request fails.
    fn put_one_of_many(
        &mut self,
        head: CollectionId,
        name: &str,
        own: &[String],
        columns: &[String],
    ) {
        // What is computed is computed once.
        let values: Vec<_> = (1..=columns.len()).map(|at| format!("n{at}")).collect();
        if !values.is_empty() {
            self.out.put(format!("local {} = {}", values.join(", "), columns.join(", ")));
        }
        let differ: Vec<_> =
            own.iter().zip(&values).map(|(own, value)| format!("{own} ~= {value}")).collect();
        self.out.open(format!("if not {name} then"));
        self.out.put(assigned(name, own, &values));
        if !differ.is_empty() {
            let conflict = self.runtime.need("conflict");
            let shown = quoted(self.program.collection(head).name.as_bytes());
            self.out.turn(format!("elseif {} then", differ.join(" or ")));
            self.out.put(format!("{conflict}({shown})"));
        }
        self.out.close("end");
    }

    /// The row of a table with a key that is spelled: what it is called, once it was looked up. `None` if
    /// it must be looked up each time.
    pub(super) fn look_up(&mut self, table: CollectionId, columns: &[String]) -> Option<String> {
        if !self.has_scalars {
            return None;
        }
        if let Some(row) = self.header_row(table) {
            return Some(row);
        }
        if !columns.iter().all(|column| self.is_spelled(column)) {
            return None;
        }
        let row = match self.looked_up_as(table, columns) {
            Some(row) => row,
            None => self.new_look_up(table, columns)?,
        };
        self.fetch(table, columns, &row);
        Some(row)
    }

    /// What a row is called that somebody looks up.
    fn looked_up_as(&self, table: CollectionId, columns: &[String]) -> Option<String> {
        let mut rows = self.looked_up.rows.iter();
        let row = rows.find(|(id, key, _)| *id == table && key == columns);
        row.map(|(.., row)| row.clone())
    }

    /// The key, as stored, of a row of a table in the map: found already if the row was looked up.
    pub(super) fn whole_key(&mut self, table: CollectionId, columns: &[Typed]) -> String {
        let spelled: Vec<_> = columns.iter().map(|(column, _)| column.clone()).collect();
        let key = self.stored_key(table, columns);
        match self.looked_up_as(table, &spelled) {
            Some(row) => format!("{row}k or {key}"),
            None => key,
        }
    }

    /// The key by which the place of a table knows a row.
    fn stored_key(&mut self, table: CollectionId, columns: &[Typed]) -> String {
        if self.layouts.is_placed(table) {
            return key(self.runtime, columns, true);
        }
        let name = &self.program.collection(table).name;
        let prefix = format!("{name}.");
        match columns {
            // Made in one go.
            [(expr, Type { base: Base::Int, may_be_nil: false })] => {
                let make = self.runtime.need("int_key");
                format!("{make}(\"{prefix}p%014x\", \"{prefix}m%014x\", {expr})")
            }
            columns => {
                let key = key(self.runtime, columns, true);
                format!("{} .. {key}", quoted(prefix.as_bytes()))
            }
        }
    }

    /// Whether a text is a literal, or a column that stays as it is until something is written.
    fn is_spelled(&self, text: &str) -> bool {
        let digits = text.strip_prefix('-').unwrap_or(text);
        text.starts_with('"')
            || digits.starts_with(|c: char| c.is_ascii_digit())
            || self.scalars.values().any(|row| row.columns.iter().any(|column| column == text))
    }

    /// A table's one row, which is in the header.
    fn header_row(&mut self, table: CollectionId) -> Option<String> {
        let start = self.layouts.stored.header.start(table)?;
        let mut at = start;
        let mut columns = vec![];
        for column in 0..self.program.collection(table).width() {
            let ty = self.type_of(table, column);
            let fields: Vec<_> =
                (0..slots(ty)).map(|slot| format!("object[{}]", at + 1 + slot)).collect();
            at += fields.len();
            columns.push(unpacked(self.runtime, ty, &fields));
        }
        let row = format!("h{start}");
        self.scalars
            .insert(row.clone(), Scalars { is_there: format!("object[{start}] == 1"), columns });
        Some(row)
    }

    /// Declares what a row is kept in that is looked up: whether it is there (nil while nobody looked), its
    /// key as stored, and the slots of its value.
    fn new_look_up(&mut self, table: CollectionId, key: &[String]) -> Option<String> {
        let collection = self.program.collection(table);
        let types: Vec<Type> =
            collection.columns[collection.key_width..].iter().map(|column| column.ty).collect();
        let count: usize = types.iter().map(|ty| slots(*ty)).sum();
        if self.looked_up.locals.len() + 2 + count > MAX_LOOKED_UP_LOCALS {
            return None;
        }
        let row = format!("q{}", self.looked_up.rows.len() + 1);
        let own: Vec<_> = (1..=count).map(|slot| format!("{row}v{slot}")).collect();
        let mut rest = own.as_slice();
        let mut columns = key.to_vec();
        for ty in types {
            let (slots, others) = rest.split_at(slots(ty));
            columns.push(unpacked(self.runtime, ty, slots));
            rest = others;
        }
        self.looked_up.locals.extend([row.clone(), format!("{row}k")]);
        self.looked_up.locals.extend(own);
        self.looked_up.rows.push((table, key.to_vec(), row.clone()));
        self.scalars.insert(row.clone(), Scalars { is_there: row.clone(), columns });
        Some(row)
    }

    /// Looks a row up, unless that was done.
    fn fetch(&mut self, table: CollectionId, key: &[String], row: &str) {
        let collection = self.program.collection(table);
        let types: Vec<Type> = collection.columns.iter().map(|column| column.ty).collect();
        let (of_key, of_value) = types.split_at(collection.key_width);
        let typed: Vec<Typed> = key.iter().cloned().zip(of_key.iter().copied()).collect();
        let whole = self.stored_key(table, &typed);
        let find = match self.layouts.is_placed(table) {
            true => find(self.layouts, &self.name(Relation::Stored(table)), &format!("{row}k")),
            false => format!("{}({row}k)", self.runtime.need("get")),
        };
        self.out.open(format!("if {row} == nil then"));
        self.out.put(format!("{row}k = {whole}"));
        self.out.put(format!("local value = {find}"));
        self.out.put(format!("{row} = value and true or false"));
        let count: usize = of_value.iter().map(|ty| slots(*ty)).sum();
        if count > 0 {
            let own: Vec<_> = (1..=count).map(|slot| format!("{row}v{slot}")).collect();
            let format = format(of_value.iter().copied());
            self.out.open("if value then");
            self.out.put(format!("{} = unpack(\"<{format}\", value)", own.join(", ")));
            self.out.close("end");
        }
        self.out.close("end");
    }
}

/// A row that is there, with its columns' values; those that are spelled so have them.
fn assigned(name: &str, own: &[String], values: &[String]) -> String {
    let (mut to, mut from) = (vec![name], vec!["true"]);
    for (own, value) in own.iter().zip(values).filter(|(own, value)| own != value) {
        to.push(own);
        from.push(value);
    }
    format!("{} = {}", to.join(", "), from.join(", "))
}
