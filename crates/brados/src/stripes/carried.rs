//! Finds the columns that always equal a given value, such as the value in a request that decides
//! the stripe. A rule's conditions can make a column equal to the value. A column of a relation
//! equals the value if this holds in every rule that produces rows of the relation.

use std::collections::{BTreeMap, BTreeSet};

use crate::ir::{Body, Expr, ExprKind, Program, Select};
use crate::plan::{MethodPlan, Relation, RulePlan};
use crate::syntax::ast::BinaryOp;
use crate::syntax::token::MergeOp;

/// A column of a source of a rule.
pub(super) type SourceColumn = (usize, usize);

/// The columns that hold the value.
#[derive(Debug, Default)]
pub(super) struct Carried(BTreeMap<Relation, BTreeSet<usize>>);

impl Carried {
    /// Follows the columns of `seeds` through a method.
    pub fn follow(
        program: &Program,
        method: &MethodPlan,
        seeds: impl IntoIterator<Item = (Relation, usize)>,
    ) -> Self {
        let mut carried = Self::default();
        for (relation, column) in seeds {
            carried.0.entry(relation).or_default().insert(column);
        }
        for phase in method.phases.iter().filter(|phase| phase.repeated.is_empty()) {
            for relation in &phase.relations {
                let head = relation.collection();
                let into: Vec<_> =
                    phase.once.iter().filter(|plan| is_now(program, plan, head)).collect();
                let columns = (0..program.collection(head).width())
                    .filter(|column| into.iter().all(|plan| carried.gives(program, plan, *column)));
                let columns: BTreeSet<_> = columns.collect();
                if !into.is_empty() && !columns.is_empty() {
                    carried.0.entry(*relation).or_default().extend(columns);
                }
            }
        }
        carried
    }

    pub fn has(&self, relation: Relation, column: usize) -> bool {
        self.0.get(&relation).is_some_and(|columns| columns.contains(&column))
    }

    /// The columns of a rule's sources that hold the value.
    pub fn places(&self, select: &Select, plan: &RulePlan) -> BTreeSet<SourceColumn> {
        let mut places: BTreeSet<SourceColumn> = plan
            .sources
            .iter()
            .enumerate()
            .filter_map(|(source, relation)| Some((source, self.0.get(relation)?)))
            .flat_map(|(source, columns)| columns.iter().map(move |column| (source, *column)))
            .collect();
        loop {
            let before = places.len();
            for (left, right) in equalities(select) {
                if places.contains(&left) || places.contains(&right) {
                    places.extend([left, right]);
                }
            }
            if places.len() == before {
                return places;
            }
        }
    }

    /// Whether a rule puts the value into a column of its head.
    pub fn gives(&self, program: &Program, plan: &RulePlan, column: usize) -> bool {
        match &program.rules[plan.rule].body {
            Body::Select(select) => {
                let place = select.columns.get(column).and_then(as_source_column);
                place.is_some_and(|place| self.places(select, plan).contains(&place))
            }
            Body::Group(group) => {
                let key = group.keys.get(column);
                key.is_some_and(|key| plan.sources.iter().all(|source| self.has(*source, *key)))
            }
            Body::Extreme(_) => plan.sources.iter().all(|source| self.has(*source, column)),
            Body::Literal(_) => false,
        }
    }
}

fn is_now(program: &Program, plan: &RulePlan, head: crate::ir::CollectionId) -> bool {
    let rule = &program.rules[plan.rule];
    rule.head == head && rule.op == MergeOp::Now
}

/// The column that an expression is.
pub(super) fn as_source_column(expr: &Expr) -> Option<SourceColumn> {
    match expr.kind {
        ExprKind::Column { source, column } => Some((source, column)),
        _ => None,
    }
}

/// The columns that a rule's conditions make equal.
pub(super) fn equalities(
    select: &Select,
) -> impl Iterator<Item = (SourceColumn, SourceColumn)> + '_ {
    select.filters.iter().filter_map(|filter| match &filter.kind {
        ExprKind::Binary(BinaryOp::Equal, left, right) => {
            as_source_column(left).zip(as_source_column(right))
        }
        _ => None,
    })
}
