//! Aggregates that are kept up to date.
//!
//! Of each group there is its state: how many rows it has, then for each aggregate but `count` the
//! greatest or least value or the sum (of `avg`, too). A row that comes adds to it; a row that goes is
//! subtracted, and if it was the greatest, the group is gone over again (`repair`) once all changes
//! are known.
//!
//! The greatest or least key of a table in the map is read there, and nothing is kept up to date. Where one
//! of the layouts has the table elsewhere it is kept (then the first of a state says only whether there are
//! rows), and found anew when an object is met whose table lies in the map ([`refresh_edges`]): who wrote
//! that may have had no other layout.
//!
//! As a relation it is read like a table: `get(object, key)`, `row(key, value)`, `prefix`.

use super::encoding::{self, Typed, key, quoted};
use super::expression::value;
use super::layouts::{Layouts, Physical};
use super::runtime::Runtime;
use super::stored::{packed_row, range, read_key, read_value};
use super::writer::Writer;
use crate::ir::{CollectionId, Function, Program};
use crate::layout::TablePlace;
use crate::layout::header::kept;
use crate::plan::{Edge, View};
use crate::value::{Base, Type};

pub(super) struct ViewWriter<'a> {
    pub program: &'a Program,
    pub layouts: &'a Layouts<'a>,
    pub view: &'a View,
    /// What the view and its table are called in the class.
    pub name: String,
    pub table: String,
    pub runtime: &'a mut Runtime,
    pub out: &'a mut Writer,
}

/// The number at an end of a table in the map, nil if the table has no row.
fn edge_number(
    program: &Program,
    table: CollectionId,
    edge: Edge,
    runtime: &mut Runtime,
) -> String {
    let end = runtime.need(match edge {
        Edge::First => "first_number",
        Edge::Last => "last_number",
    });
    let prefix = quoted(format!("{}.", program.collection(table).name).as_bytes());
    format!("{end}({prefix})")
}

/// What finds anew the aggregates that are kept though they are ends of tables, of an object whose tables
/// lie as in `physical`; nothing if there are none.
pub(super) fn refresh_edges(
    layouts: &Layouts<'_>,
    physical: &Physical,
    views: &[View],
    runtime: &mut Runtime,
) -> Vec<String> {
    let program = layouts.stored.program;
    let mut lines = vec![];
    for view in views.iter().filter(|view| layouts.is_placed(view.table)) {
        let (Some(edge), Some(start)) = (view.edge, layouts.stored.header.start(view.collection))
        else {
            continue;
        };
        let name = &program.collection(view.table).name;
        if physical.layout.table(name) == TablePlace::Map {
            let number = edge_number(program, view.table, edge, runtime);
            lines.push(format!("local number = {number}"));
            lines.push(format!("object[{start}] = number and 1 or 0"));
            let fields = start + 1..=start + kept(program, view).len();
            lines.extend(fields.map(|field| format!("object[{field}] = number or 0")));
        }
    }
    lines
}

impl ViewWriter<'_> {
    pub fn write(mut self) {
        if let Some(edge) = self.view.edge.filter(|_| !self.layouts.is_placed(self.view.table)) {
            return self.write_edge(edge);
        }
        let prefix = quoted(format!("{}.", self.view.name).as_bytes());
        let width = self.view.keys.len() + self.view.aggregates.len();
        let (name, first) = (self.name.clone(), self.view.keys.len() + 1);
        self.out.put(format!(
            "local {name} = {{ prefix = {prefix}, first = {first}, last = {width} }}"
        ));
        match self.layouts.stored.header.start(self.view.collection) {
            Some(start) => self.write_in_header(start),
            None => self.write_in_map(&prefix),
        }
        self.write_state();
        self.write_update();
        if self.view.needs_repair() {
            self.write_repair();
        }
        self.write_flush();
    }

    /// The types of the group's columns.
    fn key_types(&self) -> Vec<Type> {
        let table = self.program.collection(self.view.table);
        self.view.keys.iter().map(|key| table.columns[*key].ty).collect()
    }

    /// The types of a state: the number of rows, then what is kept.
    fn state_types(&self) -> Vec<Type> {
        let count = Type { base: Base::Int, may_be_nil: false };
        [&[count][..], &kept(self.program, self.view)].concat()
    }

    /// The columns of the relation, from the names of the parts of a state.
    fn aggregates(&mut self, state: &[String]) -> Vec<String> {
        let mut kept = state[1..].iter();
        let mut columns = vec![];
        for aggregate in &self.view.aggregates {
            columns.push(match aggregate.function {
                Function::Count => state[0].clone(),
                Function::Avg => {
                    let divide = self.runtime.need("divide");
                    format!("{divide}({}, {})", kept.next().cloned().unwrap_or_default(), state[0])
                }
                _ => kept.next().cloned().unwrap_or_default(),
            });
        }
        columns
    }

    /// The row where the table has none.
    fn of_nothing(&self) -> String {
        let defaults = self.view.aggregates.iter().filter_map(|one| one.default.as_ref());
        let defaults: Vec<_> = defaults.map(value).collect();
        if defaults.is_empty() {
            "nil".to_owned()
        } else {
            format!("{{ {} }}", defaults.join(", "))
        }
    }

    /// Read from the end of the table: there is nothing to keep.
    fn write_edge(&mut self, edge: Edge) {
        let (name, none, width) = (&self.name, self.of_nothing(), self.view.aggregates.len());
        let number = edge_number(self.program, self.view.table, edge, self.runtime);
        self.out.put(format!("local {name} = {{ first = 1, last = {width} }}"));
        self.out.open(format!("function {name}.get()"));
        self.out.put(format!("local number = {number}"));
        self.out.open("if number then");
        self.out.put(format!("return {{ {} }}", vec!["number"; width].join(", ")));
        self.out.close("end");
        self.out.put(format!("return {none}"));
        self.out.close("end");
    }

    fn write_in_header(&mut self, start: usize) {
        let count = self.state_types().len();
        let state: Vec<_> = (0..count).map(|at| format!("object[{}]", start + at)).collect();
        let columns = self.aggregates(&state).join(", ");
        let (name, none) = (self.name.clone(), self.of_nothing());
        self.out.open(format!("function {name}.get(object)"));
        self.out.open(format!("if object[{start}] > 0 then"));
        self.out.put(format!("return {{ {columns} }}"));
        self.out.close("end");
        self.out.put(format!("return {none}"));
        self.out.close("end");
        self.out.open(format!("function {name}.load(object)"));
        self.out.put(format!("return {{ {} }}", state.join(", ")));
        self.out.close("end");
        self.out.open(format!("function {name}.store(object, _, state)"));
        for (at, field) in state.iter().enumerate() {
            self.out.put(format!("{field} = state[{}]", at + 1));
        }
        self.out.put("object.is_changed = true");
        self.out.close("end");
    }

    fn write_in_map(&mut self, prefix: &str) {
        let name = self.name.clone();
        let get = self.runtime.need("get");
        let (keys, states) = (self.key_types(), self.state_types());
        self.out.open(format!("function {name}.row(key, value)"));
        let mut columns = read_key(&keys, self.runtime, self.out);
        let state = read_value(&states, self.runtime, self.out);
        columns.extend(self.aggregates(&state));
        self.out.put(format!("return {{ {} }}", columns.join(", ")));
        self.out.close("end");
        self.out.open(format!("function {name}.get(_, key)"));
        self.out.put(format!("local value = {get}({prefix} .. key)"));
        self.out.put(format!("return value and {name}.row(key, value)"));
        self.out.close("end");
        self.out.open(format!("function {name}.load(_, key)"));
        self.out.put(format!("local value = {get}({prefix} .. key)"));
        self.out.open("if value then");
        let state = read_value(&states, self.runtime, self.out);
        self.out.put(format!("return {{ {} }}", state.join(", ")));
        self.out.close("end");
        let blank: Vec<_> = states.iter().flat_map(|ty| encoding::blank(*ty)).collect();
        self.out.put(format!("return {{ {} }}", blank.join(", ")));
        self.out.close("end");
        self.write_store(prefix, &states);
    }

    fn write_store(&mut self, prefix: &str, states: &[Type]) {
        let set = self.runtime.need("set");
        let columns: Vec<Typed> =
            states.iter().enumerate().map(|(at, ty)| (format!("state[{}]", at + 1), *ty)).collect();
        self.out.open(format!("function {}.store(_, key, state)", self.name));
        self.out.open("if state[1] > 0 then");
        self.out.put(format!("{set}({prefix} .. key, {})", packed_row(&columns)));
        self.out.turn("elseif state.was > 0 then");
        self.out.put(format!("objclass.map_remove_key({prefix} .. key)"));
        self.out.close("end");
        self.out.close("end");
    }

    /// `state_of(object, row)`: the state of a row's group, as far as changes have come.
    fn write_state(&mut self) {
        let name = self.name.clone();
        let columns: Vec<Typed> = self
            .view
            .keys
            .iter()
            .zip(self.key_types())
            .map(|(key, ty)| (format!("row[{}]", key + 1), ty))
            .collect();
        let group = key(self.runtime, &columns, true);
        self.out.open(format!("function {name}.group_of(row)"));
        self.out.put(format!("return {group}"));
        self.out.close("end");
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

    /// The aggregates that are kept: function, column of the table, position in the state.
    fn kept(&self) -> Vec<(Function, usize, usize)> {
        let kept = self.view.aggregates.iter().filter(|one| one.function != Function::Count);
        kept.enumerate()
            .map(|(at, one)| (one.function, one.column.unwrap_or_default() + 1, at + 2))
            .collect()
    }

    /// `update(object, old, row)`: a row of the table goes, or comes, or is replaced.
    fn write_update(&mut self) {
        let name = self.name.clone();
        self.out.open(format!("function {name}.update(object, old, row)"));
        // The key of a row that is replaced stays: then the end of the table does, too.
        let is_edge = self.view.edge.is_some();
        self.out.open(if is_edge { "if old and not row then" } else { "if old then" });
        self.out.put(format!("local state = {name}.state_of(object, old)"));
        if !is_edge {
            self.out.put("state[1] = state[1] - 1");
        }
        for (function, column, at) in self.kept() {
            match function {
                Function::Sum | Function::Avg => {
                    let whole = self.runtime.need("whole");
                    self.out.put(format!("state[{at}] = {whole}(state[{at}] - old[{column}])"));
                }
                _ => {
                    self.out.open(format!("if old[{column}] == state[{at}] then"));
                    self.out.put("state.is_stale = true");
                    self.out.close("end");
                }
            }
        }
        self.out.close("end");
        self.out.open("if row then");
        self.out.put(format!("local state = {name}.state_of(object, row)"));
        self.write_fold("state", "row");
        self.out.put(if is_edge { "state[1] = 1" } else { "state[1] = state[1] + 1" });
        self.out.close("end");
        self.out.close("end");
    }

    /// Adds a row to a state, which counts it only afterwards.
    fn write_fold(&mut self, state: &str, row: &str) {
        for (function, column, at) in self.kept() {
            match function {
                Function::Sum | Function::Avg => {
                    let whole = self.runtime.need("whole");
                    self.out
                        .put(format!("{state}[{at}] = {whole}({state}[{at}] + {row}[{column}])"));
                }
                _ => self.write_extreme(function, state, row, column, at),
            }
        }
    }

    fn write_extreme(
        &mut self,
        function: Function,
        state: &str,
        row: &str,
        column: usize,
        at: usize,
    ) {
        let beats = if function == Function::Max { ">" } else { "<" };
        self.out.open(format!("if {state}[1] == 0 or {row}[{column}] {beats} {state}[{at}] then"));
        self.out.put(format!("{state}[{at}] = {row}[{column}]"));
        self.out.close("end");
    }

    /// `fold(group, found, row)`: what a row of a group makes of its greatest or least.
    fn write_refold(&mut self) {
        let name = self.name.clone();
        self.out.open(format!("function {name}.fold(group, found, row)"));
        self.out.open(format!("if {name}.group_of(row) == group then"));
        for (function, column, at) in self.extremes() {
            self.write_extreme(function, "found", "row", column, at);
        }
        self.out.put("found[1] = 1");
        self.out.close("end");
        self.out.close("end");
    }

    fn extremes(&self) -> Vec<(Function, usize, usize)> {
        let is_extreme = |function| matches!(function, Function::Max | Function::Min);
        self.kept().into_iter().filter(|(function, ..)| is_extreme(*function)).collect()
    }

    /// `repair(object, group, state, changes)`: goes over a group's rows again, those that change as they will
    /// be.
    fn write_repair(&mut self) {
        let (name, table) = (self.name.clone(), self.table.clone());
        let is_placed = self.layouts.is_placed(self.view.table);
        let (page, value) = range(is_placed, &table, self.runtime);
        self.write_refold();
        self.out.open(format!("function {name}.repair(object, group, state, changes)"));
        self.out.put("local found, changed, after = { 0 }, {}, \"\"");
        self.out.open("for _, change in next, changes do");
        self.out.put("changed[change.key] = change.row or false");
        self.out.close("end");
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
        self.out.open("for _, row in next, changed do");
        self.out.open("if row then");
        self.out.put(format!("{name}.fold(group, found, row)"));
        self.out.close("end");
        self.out.close("end");
        for (.., at) in self.extremes() {
            self.out.put(format!("state[{at}] = found[{at}] or state[{at}]"));
        }
        if self.view.edge.is_some() {
            self.out.put("state[1] = found[1]");
        }
        self.out.close("end");
    }

    /// `flush(object, changes)`: stores what changed.
    fn write_flush(&mut self) {
        let name = self.name.clone();
        self.out.open(format!("function {name}.flush(object, changes)"));
        let nothing = self.runtime.need("NOTHING");
        self.out.open(format!("for group, state in next, object.{name} or {nothing} do"));
        if self.view.needs_repair() {
            let may_be_empty = self.view.edge.is_some();
            let rows = if may_be_empty { "" } else { " and state[1] > 0" };
            self.out.open(format!("if state.is_stale{rows} then"));
            self.out.put(format!("{name}.repair(object, group, state, changes)"));
            self.out.close("end");
        }
        self.out.put(format!("{name}.store(object, group, state)"));
        self.out.close("end");
        self.out.close("end");
    }
}
