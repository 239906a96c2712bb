//! One method: its phases in the order of the strata, then what is written and sent.

use super::access::Planner;
use super::cardinality::Cardinalities;
use super::constants::Constants;
use super::{Access, MethodPlan, Phase, Relation, Rows, RulePlan, Step, View, demand};
use crate::ir::{Body, CollectionId, Program, Select};
use crate::stratify::Stratum;
use crate::syntax::token::MergeOp;

pub(super) fn plan(
    program: &Program,
    strata: &[Stratum],
    views: &[View],
    input: CollectionId,
) -> MethodPlan {
    let known = Cardinalities::at_start(program, views, input);
    let mut method =
        Method { program, views, known, constants: Constants::default(), phases: vec![] };
    for stratum in strata {
        match stratum.is_recursive {
            true => method.recursion(stratum),
            false => stratum.collections.iter().for_each(|id| method.collection(*id)),
        }
    }
    method.effects();
    demand::prune(program, &mut method.phases);
    MethodPlan { input, phases: method.phases, rows: method.known.into_vec() }
}

struct Method<'a> {
    program: &'a Program,
    views: &'a [View],
    known: Cardinalities,
    constants: Constants,
    phases: Vec<Phase>,
}

impl Method<'_> {
    /// The `<=` rules of a collection that are not those of a view.
    fn rules_of(&self, id: CollectionId) -> Vec<usize> {
        let is_view = self.views.iter().any(|view| view.collection == id);
        let rules = self.program.rules.iter().enumerate();
        rules
            .filter(|(_, rule)| rule.head == id && rule.op == MergeOp::Now && !is_view)
            .map(|(at, _)| at)
            .collect()
    }

    fn collection(&mut self, id: CollectionId) {
        let relation = Relation::Local(id);
        let rules: Vec<_> =
            self.rules_of(id).into_iter().flat_map(|rule| self.variants(rule, &[])).collect();
        let mut rows = rules.iter().fold(Rows::Empty, |rows, plan| rows.plus(plan.rows));
        if self.program.collection(id).is_singleton() {
            // Another row would be a conflict.
            rows = rows.min(Rows::One);
        }
        if rows != Rows::Empty {
            self.known.set(relation, rows);
            self.constants.learn(self.program, relation, &rules);
            self.phases.push(Phase { relations: vec![relation], once: rules, repeated: vec![] });
        }
    }

    fn recursion(&mut self, stratum: &Stratum) {
        let mut live: Vec<CollectionId> = vec![];
        let rules: Vec<_> = stratum.collections.iter().flat_map(|id| self.rules_of(*id)).collect();
        // A collection may have rows as soon as one of its rules can produce some. A rule can
        // depend on other collections of the same stratum, so repeat until nothing changes.
        loop {
            let before = live.len();
            for rule in &rules {
                let head = self.program.rules[*rule].head;
                if !live.contains(&head) && self.is_live(*rule) {
                    self.known.set(Relation::Local(head), Rows::Many);
                    live.push(head);
                }
            }
            if live.len() == before {
                break;
            }
        }
        if live.is_empty() {
            return;
        }
        let mut phase = Phase {
            relations: live.iter().map(|id| Relation::Local(*id)).collect(),
            once: vec![],
            repeated: vec![],
        };
        for rule in rules {
            for plan in self.variants(rule, &live) {
                let is_repeated = plan
                    .steps
                    .iter()
                    .any(|step| matches!(step, Step::Bind { access: Access::EachNew, .. }));
                match is_repeated {
                    true => phase.repeated.push(plan),
                    false => phase.once.push(plan),
                }
            }
        }
        self.phases.push(phase);
    }

    /// Whether a rule may give rows, by what its sources have so far.
    fn is_live(&self, rule: usize) -> bool {
        let has_rows = |id: CollectionId| !self.parts(id).is_empty();
        match &self.program.rules[rule].body {
            Body::Select(select) => select.sources.iter().all(|id| has_rows(*id)),
            Body::Literal(_) => true,
            Body::Group(group) => has_rows(group.input),
            Body::Extreme(extreme) => has_rows(extreme.input),
        }
    }

    /// The variants of a rule. Each table that the rule reads has stored rows and rows that this
    /// request adds; there is a variant for each combination. In a recursion there is also a
    /// variant for each of the `recursive` collections that the rule reads: from that collection
    /// the variant reads only the rows that the last round added.
    fn variants(&self, rule: usize, recursive: &[CollectionId]) -> Vec<RulePlan> {
        match &self.program.rules[rule].body {
            Body::Select(select) => self.select_variants(rule, select, recursive),
            Body::Literal(rows) => {
                let rows = if rows.len() > 1 { Rows::Many } else { Rows::One };
                vec![RulePlan { rule, sources: vec![], steps: vec![], rows }]
            }
            Body::Group(group) => {
                let has_default = group.aggregates.iter().any(|one| one.default.is_some());
                let rows = if group.keys.is_empty() { Rows::One } else { Rows::Many };
                self.aggregation(rule, group.input, rows, has_default)
            }
            Body::Extreme(extreme) => {
                let parts = self.parts(extreme.input);
                let rows =
                    parts.iter().fold(Rows::Empty, |rows, part| rows.plus(self.known.get(*part)));
                self.aggregation(rule, extreme.input, rows, false)
            }
        }
    }

    fn parts(&self, id: CollectionId) -> Vec<Relation> {
        self.known.parts(self.program, self.views, id)
    }

    /// Plans an aggregation, which reads all parts of its input in one loop.
    fn aggregation(
        &self,
        rule: usize,
        input: CollectionId,
        rows: Rows,
        has_default: bool,
    ) -> Vec<RulePlan> {
        let sources = self.parts(input);
        if sources.is_empty() && !has_default {
            return vec![];
        }
        let steps = sources.iter().enumerate().map(|(source, relation)| {
            let access = match (relation, self.known.get(*relation)) {
                (Relation::Local(_), Rows::Many) => Access::Each,
                (Relation::Local(_), _) => Access::Only,
                (_, Rows::Many) => Access::Scan,
                _ => Access::Point(vec![]),
            };
            Step::Bind { source, access }
        });
        vec![RulePlan { rule, steps: steps.collect(), sources, rows }]
    }

    fn select_variants(
        &self,
        rule: usize,
        select: &Select,
        recursive: &[CollectionId],
    ) -> Vec<RulePlan> {
        let mut choices: Vec<Vec<Relation>> = vec![vec![]];
        for id in &select.sources {
            let parts = self.parts(*id);
            let with = |chosen: &Vec<Relation>| {
                let chosen = chosen.clone();
                parts.iter().map(move |part| [&chosen[..], &[*part]].concat()).collect::<Vec<_>>()
            };
            choices = choices.iter().flat_map(with).collect();
        }
        let planner = Planner { program: self.program, views: self.views, known: &self.known };
        let mut plans = vec![];
        for sources in choices {
            if select.filters.iter().any(|filter| self.constants.refute(&sources, filter)) {
                continue;
            }
            let is_recursive = |relation: &Relation| match relation {
                Relation::Local(id) => recursive.contains(id),
                _ => false,
            };
            let new: Vec<_> = (0..sources.len()).filter(|at| is_recursive(&sources[*at])).collect();
            if new.is_empty() {
                plans.push(planner.join(rule, select, sources.clone(), None));
            }
            for source in new {
                plans.push(planner.join(rule, select, sources.clone(), Some(source)));
            }
        }
        plans
    }

    /// Plans the rules that write at the end of the request or send messages.
    fn effects(&mut self) {
        for (at, rule) in self.program.rules.iter().enumerate() {
            if rule.op == MergeOp::Now {
                continue;
            }
            let once = self.variants(at, &[]);
            if !once.is_empty() {
                self.phases.push(Phase { relations: vec![], once, repeated: vec![] });
            }
        }
    }
}
