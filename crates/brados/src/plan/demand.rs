//! Finds the relations that a method need not compute, because no reply, write or message depends
//! on them.
//!
//! Leaving them out also avoids failures. A request fails if it computes a relation that gets two
//! different rows with one key (a *conflict*). A method that does not need the relation does not
//! fail. So such a method can remove one of the two rows, which ends the conflict.

use super::{Phase, Relation, RulePlan, Step};
use crate::ir::{Body, CollectionId, ExprKind, Program};
use crate::syntax::ast::Kind;
use crate::syntax::token::MergeOp;

/// Drops phases whose relations nobody reads.
pub(super) fn prune(program: &Program, phases: &mut Vec<Phase>) {
    let mut needed: Vec<Relation> = vec![];
    let mut kept = vec![];
    for phase in phases.drain(..).rev() {
        let has_effect = |plan: &RulePlan| {
            let rule = &program.rules[plan.rule];
            let is_told = matches!(program.collection(rule.head).kind, Kind::Output | Kind::Table);
            rule.op != MergeOp::Now || is_told
        };
        let is_read = phase.relations.iter().any(|relation| needed.contains(relation));
        if !is_read && !phase.once.iter().chain(&phase.repeated).any(has_effect) {
            continue;
        }
        for plan in phase.once.iter().chain(&phase.repeated) {
            needed.extend(reads(program, plan));
        }
        kept.push(phase);
    }
    kept.reverse();
    *phases = kept;
}

/// The relations that a rule reads, for all parts of a collection.
fn reads(program: &Program, plan: &RulePlan) -> Vec<Relation> {
    let mut reads = plan.sources.clone();
    reads.extend(plan.steps.iter().filter_map(|step| match step {
        Step::Absent { relation, .. } => Some(*relation),
        _ => None,
    }));
    reads.extend(contained(program, plan.rule).into_iter().map(Relation::Local));
    reads
}

/// The collections that `include?` asks.
pub(super) fn contained(program: &Program, rule: usize) -> Vec<CollectionId> {
    let Body::Select(select) = &program.rules[rule].body else { return vec![] };
    let mut found = vec![];
    for expr in select.exprs() {
        expr.visit(&mut |expr| {
            if let ExprKind::Contains(id, _) = expr.kind {
                found.push(id);
            }
        });
    }
    found
}
