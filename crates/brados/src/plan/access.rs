//! Chooses the order in which a join reads its relations, and how it finds their rows.
//!
//! The order is greedy: next comes the relation that is cheapest to read with the rows found so
//! far. From cheap to expensive, the kinds of access are: a single row in memory, a look-up of a
//! stored row, an index in memory, a range of a table by the first columns of its key, all rows in
//! memory, a whole table. If a table would be scanned for each of many rows, the method instead
//! reads it into memory once ([`Access::Each`] and [`Access::Index`] of a stored relation).
//!
//! Each condition is tested as soon as its columns are available. A condition that the access
//! itself ensures is not tested.

use super::cardinality::Cardinalities;
use super::{Access, Relation, Rows, RulePlan, Step, View};
use crate::ir::{Absence, Expr, ExprKind, Program, Select};
use crate::syntax::ast::BinaryOp;

pub(super) struct Planner<'a> {
    pub program: &'a Program,
    pub views: &'a [View],
    pub known: &'a Cardinalities,
}

impl Planner<'_> {
    /// Plans a join over the relations in `sources`. If `new` names one of them, only the rows that
    /// the last round of a recursion added are read from it.
    pub fn join(
        &self,
        rule: usize,
        select: &Select,
        sources: Vec<Relation>,
        new: Option<usize>,
    ) -> RulePlan {
        let mut join = Join {
            planner: self,
            select,
            sources,
            bound: 0,
            steps: vec![],
            done: vec![],
            rows: Rows::One,
        };
        join.done.resize(select.filters.len(), false);
        join.test();
        if let Some(source) = new {
            join.bind(source, Access::EachNew, vec![]);
        }
        while let Some((source, access, by)) = join.next() {
            join.bind(source, access, by);
        }
        for (at, absence) in select.absences.iter().enumerate() {
            for relation in self.known.parts(self.program, self.views, absence.relation) {
                let step = self.absent(at, absence, relation, join.rows);
                join.steps.push(step);
            }
        }
        RulePlan { rule, sources: join.sources, steps: join.steps, rows: join.rows }
    }

    fn absent(&self, at: usize, absence: &Absence, relation: Relation, outer: Rows) -> Step {
        let bound: Vec<_> =
            absence.equal.iter().map(|(column, expr)| (*column, expr.clone())).collect();
        let (access, by) = self.access(relation, &bound, outer);
        let remaining = (0..bound.len()).filter(|at| !by.contains(at)).collect();
        Step::Absent { absence: at, relation, access, remaining }
    }

    /// Chooses how to find the rows of a relation whose columns equal given values. Also returns
    /// which of these equalities need no test of their own, because the access finds no other rows.
    /// The access is made for each of the `outer` rows; if these are many, the relation is read
    /// into memory once instead of scanned each time.
    fn access(
        &self,
        relation: Relation,
        bound: &[(usize, Expr)],
        outer: Rows,
    ) -> (Access, Vec<usize>) {
        let collection = self.program.collection(relation.collection());
        let find = |column: usize| bound.iter().position(|(own, _)| *own == column);
        let in_memory = || match bound.is_empty() {
            true => (Access::Each, vec![]),
            false => {
                let (columns, exprs) = bound.iter().cloned().unzip();
                (Access::Index(columns, exprs), (0..bound.len()).collect())
            }
        };
        match relation {
            Relation::Local(_) => match self.known.get(relation) {
                Rows::Many => in_memory(),
                _ => (Access::Only, vec![]),
            },
            Relation::Stored(_) | Relation::View(_) => {
                let by: Vec<_> = (0..collection.key_width).map_while(find).collect();
                let exprs: Vec<_> = by.iter().map(|at| bound[*at].1.clone()).collect();
                let access = match by.len() {
                    all if all == collection.key_width => Access::Point(exprs),
                    0 if outer == Rows::Many => return in_memory(),
                    0 => Access::Scan,
                    _ => Access::Prefix(exprs),
                };
                (access, by)
            }
        }
    }
}

/// A join that is being planned.
struct Join<'p, 'a> {
    planner: &'p Planner<'a>,
    select: &'p Select,
    sources: Vec<Relation>,
    /// The relations whose row is available, as bits.
    bound: u32,
    steps: Vec<Step>,
    /// The filters that are tested already, or that the access to rows ensures.
    done: Vec<bool>,
    rows: Rows,
}

impl Join<'_, '_> {
    /// The source to take next.
    fn next(&self) -> Option<(usize, Access, Vec<usize>)> {
        let open = (0..self.sources.len()).filter(|source| self.bound & (1 << source) == 0);
        let candidates = open.map(|source| {
            let (filters, bound): (Vec<_>, Vec<_>) = self
                .fixed(source)
                .into_iter()
                .map(|(filter, column, expr)| (filter, (column, expr)))
                .unzip();
            let (access, by) = self.planner.access(self.sources[source], &bound, self.rows);
            (source, access, by.into_iter().map(|at| filters[at]).collect())
        });
        candidates.min_by_key(|(_, access, _)| cost(access))
    }

    /// The columns of a source that filters fix by what is bound: filter, column, value.
    fn fixed(&self, source: usize) -> Vec<(usize, usize, Expr)> {
        let mut fixed = vec![];
        for (at, filter) in self.select.filters.iter().enumerate() {
            let ExprKind::Binary(BinaryOp::Equal, left, right) = &filter.kind else { continue };
            for (column, value) in [(left, right), (right, left)] {
                let ExprKind::Column { source: of, column } = column.kind else { continue };
                let is_known = value.sources() & !self.bound == 0;
                let is_first =
                    !fixed.iter().any(|(_, other, _): &(usize, usize, Expr)| *other == column);
                if of == source && is_known && is_first {
                    fixed.push((at, column, (**value).clone()));
                }
            }
        }
        fixed
    }

    fn bind(&mut self, source: usize, access: Access, by: Vec<usize>) {
        let relation = self.sources[source].collection();
        let key_width = self.planner.program.collection(relation).key_width;
        let rows = match &access {
            Access::Only | Access::Point(_) => Rows::One,
            Access::Index(columns, _) if (0..key_width).all(|key| columns.contains(&key)) => {
                Rows::One
            }
            _ => Rows::Many,
        };
        self.rows = self.rows.times(rows);
        self.steps.push(Step::Bind { source, access });
        self.bound |= 1 << source;
        for filter in by {
            self.done[filter] = true;
        }
        self.test();
    }

    /// Adds the conditions whose relations have all been read. Conditions that only compare come
    /// first, because they may exclude nil from a column with which a later condition computes
    /// (`types/nils.rs`).
    fn test(&mut self) {
        for computes in [false, true] {
            for (at, filter) in self.select.filters.iter().enumerate() {
                let is_ready = !self.done[at] && filter.sources() & !self.bound == 0;
                if is_ready && filter.computes() == computes {
                    self.done[at] = true;
                    self.steps.push(Step::Filter(at));
                }
            }
        }
    }
}

fn cost(access: &Access) -> usize {
    match access {
        Access::Only => 0,
        Access::Point(_) => 1,
        Access::Index(..) => 2,
        Access::Prefix(_) => 3,
        Access::Each | Access::EachNew => 4,
        Access::Scan => 5,
    }
}
