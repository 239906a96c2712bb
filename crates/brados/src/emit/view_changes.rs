//! Emits how stored aggregates follow the changes of their table.
//!
//! At the end of a request, `update(object, old, row)` is called for each row that is removed or
//! added. Then `finish(object)` completes the sums, if there are any. The request has written
//! nothing so far, so it can still fail if a sum is too large to be exact. At last
//! `flush(object, changes)` stores the changed states. Until then the states are in the Lua table
//! `object`, by the aggregate's name and then by the group. If a greatest or least value may have
//! been removed, `flush` first reads the rows of the group again.

use super::encoding::{Typed, key};
use super::stored::range;
use super::view::ViewWriter;
use crate::ir::Function;
use crate::plan::KeptAs;

/// The part of a state that belongs to one aggregate.
#[derive(Debug, Clone, Copy)]
struct Part {
    function: Function,
    /// The column of the table, counted as Lua does.
    column: usize,
    /// Where it is in the state, likewise.
    at: usize,
}

impl Part {
    fn is_extreme(&self) -> bool {
        matches!(self.function, Function::Max | Function::Min)
    }
}

impl ViewWriter<'_> {
    pub(super) fn write_changes(&mut self) {
        self.write_group_of();
        self.write_state_of();
        self.write_update();
        if self.view.has_sums() {
            self.write_finish();
        }
        if self.view.needs_repair() {
            self.write_fold();
            self.write_repair();
        }
        self.write_flush();
    }

    /// Whether a state says only whether the group has rows, and not how many.
    fn is_edge(&self) -> bool {
        matches!(self.kept_as, KeptAs::EdgeInHeader(_))
    }

    /// The parts of a state besides the number of rows.
    fn parts(&self) -> Vec<Part> {
        let kept = self.view.aggregates.iter().filter(|one| one.function != Function::Count);
        kept.enumerate()
            .map(|(at, one)| Part {
                function: one.function,
                column: one.column.unwrap_or_default() + 1,
                at: at + 2,
            })
            .collect()
    }

    fn extremes(&self) -> Vec<Part> {
        self.parts().into_iter().filter(Part::is_extreme).collect()
    }

    /// `group_of(row)`: the key of a row's group.
    fn write_group_of(&mut self) {
        let keys = self.view.keys.iter().map(|key| format!("row[{}]", key + 1));
        let columns: Vec<Typed> = keys.zip(self.key_types()).collect();
        let group = key(self.runtime, &columns, true);
        self.out.open(format!("function {}.group_of(row)", self.name));
        self.out.put(format!("return {group}"));
        self.out.close("end");
    }

    /// Writes `state_of(object, row)`, which returns the state of a row's group after the changes
    /// so far.
    fn write_state_of(&mut self) {
        let name = &self.name;
        self.out.open(format!("function {name}.state_of(object, row)"));
        self.out.put(format!("local group, states = {name}.group_of(row), object.{name}"));
        self.out.open("if not states then");
        self.out.put("states = {}");
        self.out.put(format!("object.{name} = states"));
        self.out.close("end");
        self.out.put("local state = states[group]");
        self.out.open("if not state then");
        self.out.put(format!("state = {name}.load(object, group)"));
        self.out.put("state.was = state[1]");
        self.out.put("states[group] = state");
        self.out.close("end");
        self.out.put("return state");
        self.out.close("end");
    }

    /// Writes `update(object, old, row)`, which is called for each row of the table that is
    /// removed, added or replaced.
    fn write_update(&mut self) {
        self.out.open(format!("function {}.update(object, old, row)", self.name));
        self.write_going();
        self.write_coming();
        self.out.close("end");
    }

    fn write_going(&mut self) {
        let name = &self.name;
        // If a row is replaced, its key stays, and so does the end of the table.
        self.out.open(if self.is_edge() { "if old and not row then" } else { "if old then" });
        self.out.put(format!("local state = {name}.state_of(object, old)"));
        if !self.is_edge() {
            self.out.put("state[1] = state[1] - 1");
        }
        for part in self.parts() {
            let Part { column, at, .. } = part;
            if part.is_extreme() {
                self.out.open(format!("if old[{column}] == state[{at}] then"));
                self.out.put("state.is_stale = true");
                self.out.close("end");
            } else {
                let shift = self.runtime.need("shift");
                self.out.put(format!("{shift}(state, {at}, -old[{column}])"));
            }
        }
        self.out.close("end");
    }

    /// Emits the addition of a new row to its group's state. The number of rows is increased last,
    /// because the code before it must see the number 0 for the first row of a group.
    fn write_coming(&mut self) {
        self.out.open("if row then");
        self.out.put(format!("local state = {}.state_of(object, row)", self.name));
        for part in self.parts() {
            let Part { column, at, .. } = part;
            if part.is_extreme() {
                self.write_extreme(part, "state");
            } else {
                let shift = self.runtime.need("shift");
                self.out.put(format!("{shift}(state, {at}, row[{column}])"));
            }
        }
        self.out.put(if self.is_edge() { "state[1] = 1" } else { "state[1] = state[1] + 1" });
        self.out.close("end");
    }

    /// `finish(object)`: the sums in the states that changed.
    fn write_finish(&mut self) {
        let (name, nothing) = (self.name.clone(), self.runtime.need("NOTHING"));
        self.out.open(format!("function {name}.finish(object)"));
        self.out.open(format!("for _, state in next, object.{name} or {nothing} do"));
        for Part { at, .. } in self.parts().into_iter().filter(|part| !part.is_extreme()) {
            let total = self.runtime.need("total");
            self.out.put(format!("{total}(state, {at})"));
        }
        self.out.close("end");
        self.out.close("end");
    }

    /// Emits the update of a greatest or least value by a row.
    fn write_extreme(&mut self, part: Part, state: &str) {
        let Part { function, column, at } = part;
        let beats = if function == Function::Max { ">" } else { "<" };
        self.out.open(format!("if {state}[1] == 0 or row[{column}] {beats} {state}[{at}] then"));
        self.out.put(format!("{state}[{at}] = row[{column}]"));
        self.out.close("end");
    }

    /// Writes `fold(group, found, row)`, which updates the greatest or least value of a group by a
    /// row.
    fn write_fold(&mut self) {
        let name = &self.name;
        self.out.open(format!("function {name}.fold(group, found, row)"));
        self.out.open(format!("if {name}.group_of(row) == group then"));
        for part in self.extremes() {
            self.write_extreme(part, "found");
        }
        self.out.put("found[1] = 1");
        self.out.close("end");
        self.out.close("end");
    }

    /// Writes `repair(object, group, state, changes)`, which computes a group's greatest or least
    /// values anew, from the stored rows and the changes of this request.
    fn write_repair(&mut self) {
        let name = self.name.clone();
        self.out.open(format!("function {name}.repair(object, group, state, changes)"));
        self.out.put("local found, changed, after = { 0 }, {}, \"\"");
        self.out.open("for _, change in next, changes do");
        self.out.put("changed[change.key] = change.row or false");
        self.out.close("end");
        self.write_fold_unchanged();
        self.out.open("for _, row in next, changed do");
        self.out.open("if row then");
        self.out.put(format!("{name}.fold(group, found, row)"));
        self.out.close("end");
        self.out.close("end");
        for Part { at, .. } in self.extremes() {
            self.out.put(format!("state[{at}] = found[{at}] or state[{at}]"));
        }
        if self.is_edge() {
            self.out.put("state[1] = found[1]");
        }
        self.out.close("end");
    }

    /// Emits a loop over the rows of the table that do not change.
    fn write_fold_unchanged(&mut self) {
        let (name, table) = (&self.name, &self.table);
        let (page, value) = range(self.layouts.is_placed(self.view.table), table, self.runtime);
        self.out.open("repeat");
        self.out.put("local values");
        self.out.put(format!("values, after = {page}{table}.prefix, after)"));
        self.out.open("for key, value in next, values do");
        self.out.put(format!("key = sub(key, #{table}.prefix + 1)"));
        self.out.open("if changed[key] == nil then");
        self.out.put(format!("{name}.fold(group, found, {table}.row(key, {value}))"));
        self.out.close("end");
        self.out.close("end");
        self.out.close("until not after");
    }

    /// `flush(object, changes)`: stores what changed.
    fn write_flush(&mut self) {
        let (name, nothing) = (&self.name, self.runtime.need("NOTHING"));
        self.out.open(format!("function {name}.flush(object, changes)"));
        self.out.open(format!("for group, state in next, object.{name} or {nothing} do"));
        if self.view.needs_repair() {
            // Only the repair finds out whether a table whose end is stored still has rows.
            let rows = if self.is_edge() { "" } else { " and state[1] > 0" };
            self.out.open(format!("if state.is_stale{rows} then"));
            self.out.put(format!("{name}.repair(object, group, state, changes)"));
            self.out.close("end");
        }
        self.out.put(format!("{name}.store(object, group, state)"));
        self.out.close("end");
        self.out.close("end");
    }
}
