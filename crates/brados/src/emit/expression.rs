//! Expressions as Lua text.

use super::encoding::{key, quoted};
use super::method::MethodWriter;
use crate::ir::{CollectionId, Expr, ExprKind};
use crate::plan::{Relation, Rows};
use crate::syntax::ast::{BinaryOp, Kind};
use crate::value::{Type, Value};

/// What an expression is about: the collections it reads columns of, and where their rows are.
pub(super) struct Scope {
    pub collections: Vec<CollectionId>,
    pub rows: Vec<String>,
}

pub(super) fn value(value: &Value) -> String {
    match value {
        Value::Nil => "nil".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Bytes(bytes) => quoted(bytes),
    }
}

/// Whether one of these conditions holds, as shallow as can be: compilers of Lua are recursive.
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
            ExprKind::Column { source, column } => self.column(&scope.rows[*source], *column),
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

    /// A truth value, for which nil is false.
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
        let collection = self.program.collection(id);
        let (key_width, width) = (collection.key_width, collection.width());
        let types: Vec<Type> = collection.columns.iter().map(|column| column.ty).collect();
        let is_view = self.is_view(id);
        let parts: &[Relation] = match collection.kind {
            Kind::Table => &[Relation::Stored(id), Relation::Local(id)],
            _ if is_view => &[Relation::View(id)],
            _ => &[Relation::Local(id)],
        };
        let there: String = (0..key_width)
            .map(|column| self.unless_nil(scope, &wanted[column], id, column, &values[column]))
            .collect();
        let mut found = vec![];
        for part in parts {
            let rows = self.plan.rows_of(*part);
            let name = self.name(*part);
            let columns: Vec<_> =
                values.iter().cloned().zip(types.iter().copied()).take(key_width).collect();
            let row = match (part, rows) {
                (_, Rows::Empty) => continue,
                (Relation::Local(_), Rows::One) if self.scalars.contains_key(&name) => {
                    let equal = values.iter().enumerate().map(|(column, value)| {
                        format!(" and {} == {value}", self.column(&name, column))
                    });
                    let equal: String = equal.collect();
                    found.push(format!("({}{equal})", self.is_there(&name)));
                    continue;
                }
                (Relation::Local(_), Rows::One) => {
                    let holds = self.runtime.need("holds");
                    found.push(format!(
                        "{holds}({name}, {{ {} }}, 1, {})",
                        values.join(", "),
                        values.len()
                    ));
                    continue;
                }
                (Relation::Local(_), _) if self.is_few(*part) => {
                    let has_few = self.runtime.need("has_few");
                    found.push(format!(
                        "{has_few}({name}, {{ {} }}, {})",
                        values.join(", "),
                        values.len()
                    ));
                    continue;
                }
                (Relation::Local(_), _) => {
                    format!("{name}.by[{}]", key(self.runtime, &columns, true))
                }
                _ => format!("{name}.get(object, {})", key(self.runtime, &columns, true)),
            };
            found.push(match values.len() == width && width > key_width {
                true => {
                    let holds = self.runtime.need("holds");
                    format!(
                        "({there}{holds}({row}, {{ {} }}, {}, {width}))",
                        values.join(", "),
                        key_width + 1
                    )
                }
                false => format!("not not ({there}{row})"),
            });
        }
        if found.is_empty() { "false".to_owned() } else { format!("({})", found.join(" or ")) }
    }

    /// What a column of a source holds.
    pub(super) fn type_of(&self, id: CollectionId, column: usize) -> Type {
        self.program.collection(id).columns[column].ty
    }
}
