//! Finds columns that have the same value in every request of a method, and conditions that are
//! therefore false.
//!
//! Often one collection collects the requests of several inputs, each with a literal that names the
//! input. From each method this pass removes the rules that are for other inputs.

use std::collections::BTreeMap;

use super::{Relation, RulePlan};
use crate::ir::{Body, Expr, ExprKind, Program};
use crate::syntax::ast::BinaryOp;
use nacre_calls::Value;

/// The constant columns of a method's relations in memory.
#[derive(Debug, Default)]
pub(super) struct Constants(BTreeMap<(Relation, usize), Value>);

impl Constants {
    /// Looks for columns of a relation into which all rules of the relation write the same value.
    pub fn learn(&mut self, program: &Program, relation: Relation, rules: &[RulePlan]) {
        for column in 0..program.collection(relation.collection()).width() {
            let mut written = rules.iter().map(|plan| self.written(program, plan, column));
            let Some(Some(first)) = written.next() else { continue };
            if written.all(|value| value.as_ref() == Some(&first)) {
                self.0.insert((relation, column), first);
            }
        }
    }

    fn written(&self, program: &Program, plan: &RulePlan, column: usize) -> Option<Value> {
        match &program.rules[plan.rule].body {
            Body::Select(select) => self.value(&plan.sources, select.columns.get(column)?),
            Body::Literal(rows) => {
                let first = rows.first()?.get(column)?;
                rows.iter().all(|row| row[column] == *first).then(|| first.clone())
            }
            Body::Group(_) | Body::Extreme(_) => None,
        }
    }

    fn value(&self, sources: &[Relation], expr: &Expr) -> Option<Value> {
        match &expr.kind {
            ExprKind::Literal(value) => Some(value.clone()),
            ExprKind::Column { source, column } => {
                self.0.get(&(*sources.get(*source)?, *column)).cloned()
            }
            _ => None,
        }
    }

    /// Whether a condition on rows of these sources is never true.
    pub fn refute(&self, sources: &[Relation], condition: &Expr) -> bool {
        self.truth(sources, condition) == Some(false)
    }

    fn truth(&self, sources: &[Relation], condition: &Expr) -> Option<bool> {
        let value = |expr: &Expr| self.value(sources, expr);
        match &condition.kind {
            ExprKind::Literal(Value::Bool(value)) => Some(*value),
            ExprKind::Binary(BinaryOp::Equal, left, right) => Some(value(left)? == value(right)?),
            ExprKind::Binary(BinaryOp::Unequal, left, right) => Some(value(left)? != value(right)?),
            ExprKind::Not(inner) => Some(!self.truth(sources, inner)?),
            ExprKind::OneOf(wanted, items) => {
                let wanted = value(wanted)?;
                let items: Vec<_> = items.iter().map(value).collect::<Option<_>>()?;
                Some(items.contains(&wanted))
            }
            _ => None,
        }
    }
}
