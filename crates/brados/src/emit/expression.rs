//! Emits expressions as Lua.

use super::encoding::{Typed, key, quoted};
use super::method::MethodWriter;
use super::row::Row;
use crate::ir::{CollectionId, Expr, ExprKind};
use crate::plan::{Relation, Rows, parts};
use crate::syntax::ast::BinaryOp;
use nacre_calls::{Type, Value};

/// The collections whose columns an expression can read, and their rows.
pub(super) struct Scope {
    collections: Vec<CollectionId>,
    /// The available rows. No expression uses a row before it is available.
    pub rows: Vec<Row>,
}

impl Scope {
    pub fn new(collections: Vec<CollectionId>) -> Self {
        let rows = vec![Row::Table(String::new()); collections.len()];
        Self { collections, rows }
    }

    /// This scope with a row of one more collection.
    pub fn with(&self, collection: CollectionId, row: Row) -> Self {
        let collections = [&self.collections[..], &[collection]].concat();
        Self { collections, rows: [&self.rows[..], &[row]].concat() }
    }
}

pub(super) fn value(value: &Value) -> String {
    match value {
        Value::Nil => "nil".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Bytes(bytes) => quoted(bytes),
    }
}

/// Joins conditions by `or`, nested as little as possible, because compilers of Lua are recursive.
fn one_of(conditions: &[String]) -> String {
    match conditions {
        [] => "false".to_owned(),
        few if few.len() <= 8 => format!("({})", few.join(" or ")),
        many => {
            let (left, right) = many.split_at(many.len() / 2);
            format!("({} or {})", one_of(left), one_of(right))
        }
    }
}

impl MethodWriter<'_> {
    pub(super) fn expr(&mut self, scope: &Scope, expr: &Expr) -> String {
        match &expr.kind {
            ExprKind::Literal(literal) => value(literal),
            ExprKind::Column { source, column } => scope.rows[*source].column(*column),
            ExprKind::Not(inner) => format!("not {}", self.truth(scope, inner)),
            ExprKind::Negate(inner) => format!("-({})", self.expr(scope, inner)),
            ExprKind::Binary(op, left, right) => self.binary(scope, *op, left, right),
            ExprKind::OneOf(wanted, items) => {
                let wanted = self.expr(scope, wanted);
                let each: Vec<_> = items
                    .iter()
                    .map(|item| format!("{wanted} == {}", self.expr(scope, item)))
                    .collect();
                one_of(&each)
            }
            ExprKind::Contains(id, wanted) => self.contains(scope, *id, wanted),
        }
    }

    fn binary(&mut self, scope: &Scope, op: BinaryOp, left: &Expr, right: &Expr) -> String {
        if op.is_logical() {
            let sides = [self.truth(scope, left), self.truth(scope, right)];
            return format!("({} {} {})", sides[0], op.as_str(), sides[1]);
        }
        let (a, b) = (self.expr(scope, left), self.expr(scope, right));
        let mut call = |function| format!("{}({a}, {b})", self.runtime.need(function));
        match op {
            BinaryOp::Multiply => return call("times"),
            BinaryOp::Divide => return call("divide"),
            BinaryOp::Modulo => return call("modulo"),
            BinaryOp::Add | BinaryOp::Subtract => {
                return format!("{}({a} {} {b})", self.runtime.need("whole"), op.as_str());
            }
            _ => {}
        }
        let symbol = if op == BinaryOp::Unequal { "~=" } else { op.as_str() };
        let mut guards = String::new();
        if op.is_ordering() {
            // Nothing is less than nil or greater.
            for (side, text) in [(left, &a), (right, &b)] {
                if self.may_be_nil(scope, side) {
                    guards.push_str(&format!("{text} ~= nil and "));
                }
            }
        }
        format!("({guards}{a} {symbol} {b})")
    }

    /// A boolean expression. Nil counts as false.
    fn truth(&mut self, scope: &Scope, expr: &Expr) -> String {
        let text = self.expr(scope, expr);
        if self.may_be_nil(scope, expr) { format!("({text} == true)") } else { text }
    }

    pub(super) fn may_be_nil(&self, scope: &Scope, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Literal(value) => *value == Value::Nil,
            ExprKind::Column { source, column } => {
                self.program.collection(scope.collections[*source]).columns[*column].ty.may_be_nil
            }
            _ => false,
        }
    }

    /// Whether a collection has a row with this key, or this row.
    fn contains(&mut self, scope: &Scope, id: CollectionId, wanted: &[Expr]) -> String {
        let values: Vec<_> = wanted.iter().map(|item| self.expr(scope, item)).collect();
        let there: String = (0..self.program.collection(id).key_width)
            .map(|column| self.unless_nil(scope, &wanted[column], id, column, &values[column]))
            .collect();
        let mut found = vec![];
        for part in parts(self.program, &self.class.views, id) {
            match self.plan.rows_of(part) {
                Rows::Empty => {}
                Rows::One if matches!(part, Relation::Local(_)) => {
                    found.push(self.is_only_row(part, &values));
                }
                _ if self.is_few(part) => {
                    let (has_few, name) = (self.runtime.need("has_few"), self.name(part));
                    let (row, width) = (values.join(", "), values.len());
                    found.push(format!("{has_few}({name}, {{ {row} }}, {width})"));
                }
                _ => found.push(self.has_key(part, &there, &values)),
            }
        }
        if found.is_empty() { "false".to_owned() } else { format!("({})", found.join(" or ")) }
    }

    /// Whether the one row of a relation in memory begins with these columns.
    fn is_only_row(&mut self, relation: Relation, values: &[String]) -> String {
        let name = self.name(relation);
        match self.row(&name) {
            Row::Scalars(row) => {
                let columns = row.columns.iter().zip(values);
                let equal: String =
                    columns.map(|(own, value)| format!(" and {own} == {value}")).collect();
                format!("({}{equal})", row.is_there)
            }
            Row::Table(row) => {
                let holds = self.runtime.need("holds");
                format!("{holds}({row}, {{ {} }}, 1, {})", values.join(", "), values.len())
            }
        }
    }

    /// Emits a test whether a relation has a row with this key. If `values` also has the columns
    /// after the key, these must be equal too. `there` is the beginning of a Lua condition
    /// ([`Self::unless_nil`]): no value is nil whose column is never nil.
    fn has_key(&mut self, relation: Relation, there: &str, values: &[String]) -> String {
        let collection = self.program.collection(relation.collection());
        let (key_width, width) = (collection.key_width, collection.width());
        let columns: Vec<Typed> = values.iter().cloned().zip(collection.key_types()).collect();
        let (name, key) = (self.name(relation), key(self.runtime, &columns, true));
        let row = match relation {
            Relation::Local(_) => format!("{name}.by[{key}]"),
            Relation::Stored(_) | Relation::View(_) => format!("{name}.get(object, {key})"),
        };
        if values.len() < width || width == key_width {
            return format!("not not ({there}{row})");
        }
        let holds = self.runtime.need("holds");
        let wanted = values.join(", ");
        format!("({there}{holds}({row}, {{ {wanted} }}, {}, {width}))", key_width + 1)
    }

    /// The first columns of a row of a collection, with their types.
    pub(super) fn columns(&self, row: &Row, id: CollectionId, count: usize) -> Vec<Typed> {
        (0..count).map(|at| (row.column(at), self.type_of(id, at))).collect()
    }

    /// The type of a column.
    pub(super) fn type_of(&self, id: CollectionId, column: usize) -> Type {
        self.program.collection(id).columns[column].ty
    }
}
