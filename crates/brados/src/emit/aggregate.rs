//! Aggregates that are computed: over rows in memory, or over a table that `<=` adds to.

use super::encoding::{Typed, key};
use super::expression::{Scope, value};
use super::method::MethodWriter;
use super::row::Row;
use super::target::Target;
use super::writer::Blocks;
use crate::ir::{Aggregate, CollectionId, Extreme, Function, Group};
use crate::plan::{RulePlan, Step};

impl MethodWriter<'_> {
    pub(super) fn group(
        &mut self,
        plan: &RulePlan,
        group: &Group,
        head: CollectionId,
        target: &Target,
    ) {
        self.out.open("do");
        self.out.put("local groups = {}");
        self.each_input(plan, |method, row| method.fold(group, row));
        self.out.open("for _, g in next, groups do");
        let mut columns: Vec<_> = (1..=group.keys.len()).map(|at| format!("g[{at}]")).collect();
        for (at, aggregate) in group.aggregates.iter().enumerate() {
            columns.push(match aggregate.function {
                Function::Count => "g.count".to_owned(),
                Function::Avg => format!("{}(g.a{at}, g.count)", self.runtime.need("divide")),
                _ => format!("g.a{at}"),
            });
        }
        self.put_row(head, columns, target);
        self.out.close("end");
        let defaults: Option<Vec<_>> =
            group.aggregates.iter().map(|one| one.default.as_ref().map(value)).collect();
        if let Some(defaults) = defaults.filter(|defaults| !defaults.is_empty()) {
            self.out.open("if next(groups) == nil then");
            self.put_row(head, defaults, target);
            self.out.close("end");
        }
        self.out.close("end");
    }

    /// Loops over all rows of the input.
    fn each_input(&mut self, plan: &RulePlan, mut body: impl FnMut(&mut Self, &Row)) {
        let scope = Scope::new(vec![]);
        for step in &plan.steps {
            let Step::Bind { source, access } = step else { continue };
            let mut blocks = Blocks::default();
            blocks.open(self.out, "do");
            let row = self.bind(&scope, plan.sources[*source], access, &mut blocks);
            body(self, &row);
            blocks.close(self.out);
        }
    }

    /// Finds or makes the group of a row.
    fn group_of(&mut self, input: CollectionId, keys: &[usize], row: &Row, fresh: &str) {
        let columns: Vec<Typed> =
            keys.iter().map(|column| (row.column(*column), self.type_of(input, *column))).collect();
        let key = key(self.runtime, &columns, true);
        self.out.put(format!("local key = {key}"));
        self.out.put("local g = groups[key]");
        self.out.open("if not g then");
        self.out.put(format!("g = {fresh}"));
        self.out.put("groups[key] = g");
        self.out.close("end");
    }

    fn fold(&mut self, group: &Group, row: &Row) {
        let mut fresh: Vec<_> = group.keys.iter().map(|column| row.column(*column)).collect();
        fresh.push("count = 0".to_owned());
        self.group_of(group.input, &group.keys, row, &format!("{{ {} }}", fresh.join(", ")));
        self.out.put("g.count = g.count + 1");
        for (at, Aggregate { function, column, .. }) in group.aggregates.iter().enumerate() {
            let Some(column) = column else { continue };
            let (all, own) = (format!("g.a{at}"), row.column(*column));
            match function {
                Function::Count => {}
                Function::Sum | Function::Avg => {
                    let whole = self.runtime.need("whole");
                    self.out.put(format!("{all} = {whole}(({all} or 0) + {own})"));
                }
                Function::Max | Function::Min => {
                    let beats = if *function == Function::Max { ">" } else { "<" };
                    self.out.open(format!("if {all} == nil or {own} {beats} {all} then"));
                    self.out.put(format!("{all} = {own}"));
                    self.out.close("end");
                }
            }
        }
    }

    pub(super) fn extreme(
        &mut self,
        plan: &RulePlan,
        extreme: &Extreme,
        head: CollectionId,
        target: &Target,
    ) {
        let beats = if extreme.function == Function::Max { ">" } else { "<" };
        self.out.open("do");
        self.out.put("local groups = {}");
        self.each_input(plan, |method, row| {
            let (own, whole) = (row.column(extreme.column), row.whole());
            let fresh = format!("{{ best = {own} }}");
            method.group_of(extreme.input, &extreme.keys, row, &fresh);
            method.out.open(format!("if {own} {beats} g.best then"));
            method.out.put(format!("g = {fresh}"));
            method.out.put("groups[key] = g");
            method.out.close("end");
            method.out.open(format!("if {own} == g.best then"));
            method.out.put(format!("g[#g + 1] = {whole}"));
            method.out.close("end");
        });
        self.out.open("for _, g in next, groups do");
        self.out.open("for i = 1, #g do");
        let width = self.program.collection(head).width();
        let columns = (1..=width).map(|at| format!("g[i][{at}]")).collect();
        self.put_row(head, columns, target);
        self.out.close("end");
        self.out.close("end");
        self.out.close("end");
    }
}
