//! Emits one rule: nested steps, and the rule's row in the innermost one.

use super::expression::{Scope, value};
use super::method::MethodWriter;
use super::row::Row;
use super::target::Target;
use super::writer::Blocks;
use crate::ir::{Absence, Body, CollectionId, ExprKind, Select};
use crate::plan::{Access, Relation, RulePlan, Step};

impl MethodWriter<'_> {
    pub(super) fn rule(&mut self, plan: &RulePlan, target: &Target) {
        let rule = &self.program.rules[plan.rule];
        match &rule.body {
            Body::Select(select) => self.select(plan, select, rule.head, target),
            Body::Literal(rows) => {
                for row in rows {
                    let columns = row.iter().map(value).collect();
                    self.out.open("do");
                    self.put_row(rule.head, columns, target);
                    self.out.close("end");
                }
            }
            Body::Group(group) => self.group(plan, group, rule.head, target),
            Body::Extreme(extreme) => self.extreme(plan, extreme, rule.head, target),
        }
    }

    fn select(&mut self, plan: &RulePlan, select: &Select, head: CollectionId, target: &Target) {
        if let Some(condition) = self.condition(plan, select) {
            match condition.text().as_str() {
                "true" => self.out.open("do"),
                text => self.out.open(format!("if {text} then")),
            }
            self.give(select, head, &condition.scope, target);
            self.out.close("end");
            return;
        }
        let mut scope = Scope::new(select.sources.clone());
        let mut blocks = Blocks::default();
        blocks.open(self.out, "do");
        let mut steps = plan.steps.iter().peekable();
        while let Some(step) = steps.next() {
            match step {
                Step::Bind { source, access } => {
                    let relation = plan.sources[*source];
                    scope.rows[*source] = self.bind(&scope, relation, access, &mut blocks);
                }
                Step::Filter(first) => {
                    let mut tests = Vec::from_iter(self.test(&scope, &select.filters[*first]));
                    while let Some(Step::Filter(next)) = steps.peek() {
                        tests.extend(self.test(&scope, &select.filters[*next]));
                        steps.next();
                    }
                    if !tests.is_empty() {
                        blocks.open(self.out, format!("if {} then", tests.join(" and ")));
                    }
                }
                Step::Absent { absence, relation, access, remaining } => {
                    let absence = &select.absences[*absence];
                    let absent = match self.row_found(&scope, *relation, access) {
                        Some(row) => self.absent(&scope, *relation, row, absence, remaining),
                        None => {
                            let found =
                                self.match_found(&scope, *relation, access, absence, remaining);
                            format!("not {found}")
                        }
                    };
                    blocks.open(self.out, format!("if {absent} then"));
                }
            }
        }
        self.give(select, head, &scope, target);
        blocks.close(self.out);
    }

    /// Emits the row of a rule, where all its parts are available.
    fn give(&mut self, select: &Select, head: CollectionId, scope: &Scope, target: &Target) {
        match whole_row(self, select, head) {
            Some(source) => self.put_existing(head, &scope.rows[source], target),
            None => {
                let columns =
                    select.columns.iter().map(|column| self.expr(scope, column)).collect();
                self.put_row(head, columns, target);
            }
        }
    }

    /// Emits the search for a matching row of a relation. Returns the name of the Lua variable that
    /// says whether a row was found.
    fn match_found(
        &mut self,
        scope: &Scope,
        relation: Relation,
        access: &Access,
        absence: &Absence,
        remaining: &[usize],
    ) -> String {
        let found = format!("found{}", self.depth + 1);
        self.out.put(format!("local {found} = false"));
        let mut blocks = Blocks::default();
        blocks.open(self.out, "do");
        let row = self.bind(scope, relation, access, &mut blocks);
        let tests = self.match_tests(scope, relation, row, absence, remaining);
        if !tests.is_empty() {
            blocks.open(self.out, format!("if {} then", tests.join(" and ")));
        }
        self.out.put(format!("{found} = true"));
        blocks.close(self.out);
        found
    }

    /// The conditions under which an available row matches.
    pub(super) fn match_tests(
        &mut self,
        scope: &Scope,
        relation: Relation,
        row: Row,
        absence: &Absence,
        remaining: &[usize],
    ) -> Vec<String> {
        let mut tests = vec![];
        for (column, expr) in remaining.iter().map(|at| &absence.equal[*at]) {
            let (own, wanted) = (row.column(*column), self.expr(scope, expr));
            // Spelled alike they are alike.
            if own != wanted {
                tests.push(format!("{own} == {wanted}"));
            }
        }
        let inner = scope.with(relation.collection(), row);
        tests.extend(absence.predicate.as_ref().map(|predicate| self.expr(&inner, predicate)));
        tests
    }
}

/// If the result is the whole row of one source, the index of that source.
fn whole_row(method: &MethodWriter<'_>, select: &Select, head: CollectionId) -> Option<usize> {
    let ExprKind::Column { source, .. } = select.columns.first()?.kind else { return None };
    let width = method.program.collection(select.sources[source]).width();
    let is_whole = select
        .columns
        .iter()
        .enumerate()
        .all(|(column, expr)| expr.kind == ExprKind::Column { source, column });
    (is_whole && width == method.program.collection(head).width() && width == select.columns.len())
        .then_some(source)
}
