//! Checks that a spread request, which every stripe runs, gives the same result as on one object.
//!
//! For each relation it finds one of three cases ([`Share`]): every stripe has all rows; each
//! stripe has a part of the rows; or a stripe has rows that the relation would not have on a single
//! object. The third case comes from an aggregate over a part, from a test that some row is
//! missing, made on a part, and from a join of unrelated parts.

use std::collections::BTreeMap;

use super::Attempt;
use super::carried::{Carried, as_source_column, equalities};
use crate::ir::{Body, CollectionId, ExprKind, Select};
use crate::plan::{MethodPlan, Relation, RulePlan, Step};
use crate::syntax::ast::Kind;
use crate::syntax::token::MergeOp;

/// Which rows of a relation a stripe has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Share {
    /// Every stripe has all rows.
    Same,
    /// The stripe has a part of the rows. The parts of all stripes together are the relation.
    Part,
    /// The stripe's rows are not a part of the whole relation's rows.
    Apart,
}

struct Spread<'a> {
    attempt: &'a Attempt<'a>,
    /// The columns by which parts are divided.
    own: Carried,
    shares: BTreeMap<Relation, Share>,
}

impl Attempt<'_> {
    /// The outputs that each stripe computes from its own rows only.
    ///
    /// # Errors
    /// The reason, if the stripes together would store something else than one object does.
    pub(super) fn spread(&self, method: &MethodPlan) -> Result<Vec<CollectionId>, String> {
        let stored = self.program.ids().flat_map(|id| [Relation::Stored(id), Relation::View(id)]);
        let seeds =
            stored.filter_map(|relation| Some((relation, self.dividing(relation.collection())?)));
        let own = Carried::follow(self.program, method, seeds);
        let mut spread = Spread { attempt: self, own, shares: BTreeMap::new() };
        let mut apart = vec![];
        for phase in &method.phases {
            spread.phase(phase);
            for plan in phase.once.iter().chain(&phase.repeated) {
                spread.check_write(plan)?;
            }
        }
        for output in self.program.of_kind(Kind::Output) {
            if spread.share(Relation::Local(output)) == Share::Apart {
                apart.push(output);
            }
        }
        Ok(apart)
    }
}

impl Spread<'_> {
    fn share(&self, relation: Relation) -> Share {
        let id = relation.collection();
        match (relation, self.shares.get(&relation)) {
            (_, Some(share)) => *share,
            (Relation::Local(_), None) => Share::Same,
            (Relation::Stored(_), None) if self.attempt.is_divided(id) => Share::Part,
            (Relation::View(_), None) if self.attempt.is_divided(id) => {
                if self.attempt.dividing(id).is_some() { Share::Part } else { Share::Apart }
            }
            _ => Share::Same,
        }
    }

    /// Finds the [`Share`] of each relation of a phase. If several rules produce rows of a
    /// relation, the worst case counts: [`Share::Apart`] is worse than [`Share::Part`].
    fn phase(&mut self, phase: &crate::plan::Phase) {
        // Each round of the rules can find a worse case for one more relation. So as many rounds as
        // there are relations are enough.
        for _ in 0..=phase.relations.len() {
            for plan in phase.once.iter().chain(&phase.repeated) {
                let head = Relation::Local(self.attempt.program.rules[plan.rule].head);
                if phase.relations.contains(&head) {
                    let share = self.of_rule(plan).max(self.share(head));
                    self.shares.insert(head, share);
                }
            }
        }
    }

    fn of_rule(&self, plan: &RulePlan) -> Share {
        let worst = plan.sources.iter().map(|source| self.share(*source)).max();
        let worst = worst.unwrap_or(Share::Same);
        match &self.attempt.program.rules[plan.rule].body {
            Body::Select(select) => {
                let is_whole = self.is_joined(select, plan) && self.misses_none(select, plan);
                if is_whole { worst } else { Share::Apart }
            }
            Body::Literal(_) => Share::Same,
            Body::Group(group) if worst == Share::Part => self.grouped(&group.keys, plan),
            Body::Extreme(extreme) if worst == Share::Part => self.grouped(&extreme.keys, plan),
            _ => worst,
        }
    }

    /// If each group is within one stripe, every stripe has its part of the groups.
    fn grouped(&self, keys: &[usize], plan: &RulePlan) -> Share {
        let within = |source: &Relation| keys.iter().any(|key| self.own.has(*source, *key));
        if plan.sources.iter().all(within) { Share::Part } else { Share::Apart }
    }

    /// Whether joined rows of several parts are always in the same stripe.
    fn is_joined(&self, select: &Select, plan: &RulePlan) -> bool {
        let is_part = |source: &usize| self.share(plan.sources[*source]) == Share::Part;
        let parts: Vec<_> = (0..plan.sources.len()).filter(is_part).collect();
        parts.windows(2).all(|pair| {
            equalities(select).any(|((a, x), (b, y))| {
                let sides = [(a, x), (b, y)];
                pair.iter().all(|part| {
                    sides.iter().any(|(source, column)| {
                        source == part && self.own.has(plan.sources[*source], *column)
                    })
                })
            })
        })
    }

    /// Whether a row that one stripe lacks is missing in every stripe.
    fn misses_none(&self, select: &Select, plan: &RulePlan) -> bool {
        let places = self.own.places(select, plan);
        let absences = plan.steps.iter().all(|step| match step {
            Step::Absent { absence, relation, .. } if self.share(*relation) != Share::Same => {
                self.share(*relation) == Share::Part
                    && select.absences[*absence].equal.iter().any(|(column, expr)| {
                        let place = as_source_column(expr);
                        self.own.has(*relation, *column)
                            && place.is_some_and(|place| places.contains(&place))
                    })
            }
            _ => true,
        });
        let mut asks_none = true;
        for expr in select.exprs() {
            expr.visit(&mut |expr| {
                if let ExprKind::Contains(id, _) = &expr.kind {
                    let local = self.share(Relation::Local(*id));
                    asks_none &= local == Share::Same && !self.attempt.has_stored_part(*id);
                }
            });
        }
        absences && asks_none
    }

    /// Whether each stripe writes its part of what one object would.
    fn check_write(&self, plan: &RulePlan) -> Result<(), String> {
        let program = self.attempt.program;
        let rule = &program.rules[plan.rule];
        if !self.attempt.is_table(rule.head) && program.collection(rule.head).kind != Kind::Channel
        {
            return Ok(());
        }
        let name = &program.collection(rule.head).name;
        let share = self.of_rule(plan);
        if program.collection(rule.head).kind == Kind::Channel {
            return match share {
                Share::Part => Ok(()),
                _ => Err(format!("every stripe would send to `{name}`")),
            };
        }
        match self.attempt.dividing(rule.head) {
            None if share == Share::Same => Ok(()),
            None => Err(format!(
                "`{name}` is one for all stripes, and computed from rows of which each has a part"
            )),
            Some(_) if share == Share::Apart => Err(format!(
                "what is written into `{name}` depends on all rows, of which a stripe has a part"
            )),
            Some(_) if rule.op == MergeOp::Delete => Ok(()),
            Some(column) if self.own.gives(program, plan, column) => Ok(()),
            Some(_) => Err(format!(
                "every stripe carries it out, and each would put the same rows into `{name}`"
            )),
        }
    }
}
