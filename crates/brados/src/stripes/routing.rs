//! Whether a column of a request decides the stripe.

use std::collections::BTreeSet;

use super::Attempt;
use super::carried::{Carried, SourceColumn, as_source_column};
use crate::ir::{Body, CollectionId, Expr, ExprKind, Select};
use crate::plan::{MethodPlan, Relation, RulePlan, Step};
use crate::syntax::ast::Kind;

impl Attempt<'_> {
    pub(super) fn touches_divided(&self, method: &MethodPlan) -> bool {
        method.rules().any(|plan| {
            let rule = &self.program.rules[plan.rule];
            let reads = rule.body.reads(rule.span).into_iter().map(|(id, ..)| id);
            reads.chain([rule.head]).any(|id| self.is_divided(id))
        })
    }

    pub(super) fn writes_copies(&self, method: &MethodPlan) -> bool {
        method.rules().any(|plan| {
            let head = self.program.rules[plan.rule].head;
            self.is_table(head) && !self.is_divided(head)
        })
    }

    /// Whether a request's `column` decides the stripe. It does if all rows of divided tables that
    /// the method touches have the value of `column` in their dividing column, and the method
    /// writes no copied table.
    pub(super) fn is_routed_by(&self, method: &MethodPlan, column: usize) -> bool {
        let input = self.program.collection(method.input);
        if self.writes_copies(method) || input.columns[column].ty.may_be_nil {
            return false;
        }
        let request = Relation::Local(method.input);
        let carried = Carried::follow(self.program, method, [(request, column)]);
        method.rules().all(|plan| self.stays(plan, &carried))
    }

    /// Whether a rule stays within the stripe.
    fn stays(&self, plan: &RulePlan, carried: &Carried) -> bool {
        let rule = &self.program.rules[plan.rule];
        let gives = |column| carried.gives(self.program, plan, column);
        if self.is_table(rule.head) && !self.dividing(rule.head).is_some_and(gives) {
            return false;
        }
        match &rule.body {
            Body::Select(select) => self.reads_within(select, plan, carried),
            _ => !plan.sources.iter().any(|source| self.is_stored_part(*source)),
        }
    }

    fn is_stored_part(&self, relation: Relation) -> bool {
        !matches!(relation, Relation::Local(_)) && self.is_divided(relation.collection())
    }

    fn reads_within(&self, select: &Select, plan: &RulePlan, carried: &Carried) -> bool {
        let places = carried.places(select, plan);
        let joined = plan.sources.iter().enumerate().all(|(source, relation)| {
            !self.is_stored_part(*relation)
                || self
                    .dividing(relation.collection())
                    .is_some_and(|column| places.contains(&(source, column)))
        });
        let absent = plan.steps.iter().all(|step| match step {
            Step::Absent { absence, relation, .. } if self.is_stored_part(*relation) => {
                let equal = &select.absences[*absence].equal;
                self.dividing(relation.collection()).is_some_and(|column| {
                    equal.iter().any(|(own, expr)| *own == column && is_in(&places, expr))
                })
            }
            _ => true,
        });
        joined && absent && self.contains_within(select, &places)
    }

    /// Whether each `include?` of a divided table asks for a key of the stripe.
    fn contains_within(&self, select: &Select, places: &BTreeSet<SourceColumn>) -> bool {
        let mut within = true;
        for expr in select.exprs() {
            expr.visit(&mut |expr| {
                if let ExprKind::Contains(id, items) = &expr.kind
                    && self.has_stored_part(*id)
                {
                    let item = self.dividing(*id).and_then(|column| items.get(column));
                    within &= item.is_some_and(|item| is_in(places, item));
                }
            });
        }
        within
    }

    /// Whether a name in a condition stands for a divided table or aggregate.
    pub(super) fn has_stored_part(&self, id: CollectionId) -> bool {
        let is_view = self.plan.views.iter().any(|view| view.collection == id);
        (is_view || self.program.collection(id).kind == Kind::Table) && self.is_divided(id)
    }
}

fn is_in(places: &BTreeSet<SourceColumn>, expr: &Expr) -> bool {
    as_source_column(expr).is_some_and(|place| places.contains(&place))
}
