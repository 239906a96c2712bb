//! Finds *brief* methods, which take some microseconds however much data their object holds. An
//! engine may run a brief method on the caller's thread, as it runs plain ops, instead of passing
//! it to another thread.
//!
//! **Invariant:** a brief method looks up single rows and changes a few. It never scans rows, so
//! its time does not depend on the size of its object.

use super::{Access, ClassPlan, KeptAs, MethodPlan, Phase, Relation, RulePlan, Step, View};
use crate::ir::Program;
use crate::syntax::token::MergeOp;

impl ClassPlan {
    /// The methods that are brief.
    pub fn brief(&self, program: &Program) -> impl Iterator<Item = &MethodPlan> {
        // The first request on an object in a former layout migrates it, which takes longer.
        let is_settled = program.former_layouts().next().is_none();
        self.methods.iter().filter(move |method| is_settled && self.is_brief(program, method))
    }

    fn is_brief(&self, program: &Program, method: &MethodPlan) -> bool {
        let goes_over_none = |phase: &Phase| {
            phase.repeated.is_empty() && phase.once.iter().all(|plan| self.looks_up(program, plan))
        };
        method.phases.iter().all(goes_over_none)
            && method.rules().all(|plan| self.changes_little(program, plan))
    }

    /// Whether a rule only reads single rows, in memory or by their stored keys. A list of literals
    /// does not count as a single row: it is short, but a join of several lists may be long.
    fn looks_up(&self, program: &Program, plan: &RulePlan) -> bool {
        plan.steps.iter().all(|step| {
            let (relation, access) = match step {
                Step::Bind { source, access } => (plan.sources[*source], access),
                Step::Absent { relation, access, .. } => (*relation, access),
                Step::Filter(_) => return true,
            };
            let is_edge = matches!(relation, Relation::View(view)
                if self.views.iter().any(|one| one.collection == view && is_edge(program, one)));
            !is_edge && matches!(access, Access::Only | Access::Point(_))
        })
    }

    /// Whether a rule writes at most one row, and updates the stored aggregates of its table
    /// without reading other rows.
    fn changes_little(&self, program: &Program, plan: &RulePlan) -> bool {
        let rule = &program.rules[plan.rule];
        let mut views = self.views.iter().filter(|view| view.table == rule.head);
        let walks = |view: &View| !is_edge(program, view) && view.needs_repair();
        match rule.op {
            MergeOp::Now | MergeOp::Insert => true,
            MergeOp::Send => false,
            MergeOp::Delete | MergeOp::Replace => {
                program.collection(rule.head).is_singleton() || !views.any(walks)
            }
        }
    }
}

/// Whether an aggregate is read from an end of its table, where the search may pass many removed
/// rows.
fn is_edge(program: &Program, view: &View) -> bool {
    matches!(view.kept_as(program), KeptAs::Edge(_))
}
