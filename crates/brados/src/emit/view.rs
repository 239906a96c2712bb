//! Aggregates that an object stores and keeps up to date.
//!
//! Each group has a stored state: its number of rows, then one number for each aggregate except
//! `count`. That number is the greatest or least value or the sum (also for `avg`). A new row is
//! added to the state, and a removed row is subtracted. If the removed row had the greatest or
//! least value, the class reads the group's rows again (`repair`), after all changes of the request
//! are known.
//!
//! [`KeptAs`] says where the state is stored. The greatest or least key of a table (an *end* of the
//! table) may be stored in the header. If the table is in the map, an earlier version of the class
//! may have written the object without storing the end. So in this case the class computes the end
//! anew when it loads the object ([`refresh_edges`]).
//!
//! A stored aggregate is read like a table: `get(object, key)`, `row(key, value)`, `prefix`. If it
//! follows the changes of its table (`emit/view_changes.rs`), it also has `load(object, group)` and
//! `store(object, group, state)`.

use super::encoding::{self, Typed, quoted};
use super::expression::value;
use super::layouts::{Layouts, Physical};
use super::relation_name;
use super::runtime::Runtime;
use super::stored::{packed_row, read_key, read_value};
use super::writer::Writer;
use crate::ir::{CollectionId, Function, Program};
use crate::layout::TableLocation;
use crate::layout::header::kept;
use crate::plan::{Edge, KeptAs, Relation, View};
use nacre_calls::{Base, Type};

pub(super) struct ViewWriter<'a> {
    pub program: &'a Program,
    pub layouts: &'a Layouts<'a>,
    pub view: &'a View,
    pub kept_as: KeptAs,
    /// The names of the aggregate and its table in the class.
    pub name: String,
    pub table: String,
    pub runtime: &'a mut Runtime,
    pub out: &'a mut Writer,
}

/// Writes the functions that read an aggregate and, if it is stored, those that change it.
pub(super) fn write(layouts: &Layouts<'_>, view: &View, runtime: &mut Runtime, out: &mut Writer) {
    let program = layouts.stored.program;
    let kept_as = view.kept_as(program);
    let name = relation_name(program, Relation::View(view.collection));
    let table = relation_name(program, Relation::Stored(view.table));
    ViewWriter { program, layouts, view, kept_as, name, table, runtime, out }.write();
}

/// The number in the first or last key of a table that is in the map. It is nil if the table is
/// empty.
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

/// Emits code that computes anew the greatest and least keys that the header stores, for an object
/// in the layout `physical`. Emits nothing if the header stores no such key.
pub(super) fn refresh_edges(
    layouts: &Layouts<'_>,
    physical: &Physical,
    views: &[View],
    runtime: &mut Runtime,
) -> Vec<String> {
    let program = layouts.stored.program;
    let mut lines = vec![];
    for view in views {
        let start = layouts.stored.header.start(view.collection);
        let (KeptAs::EdgeInHeader(edge), Some(start)) = (view.kept_as(program), start) else {
            continue;
        };
        let name = &program.collection(view.table).name;
        if physical.layout.table(name) == TableLocation::Map {
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
    fn write(mut self) {
        let start = self.layouts.stored.header.start(self.view.collection);
        match (self.kept_as, start) {
            (KeptAs::Edge(edge), _) => return self.write_edge(edge),
            (KeptAs::Header | KeptAs::EdgeInHeader(_), Some(start)) => {
                self.declare();
                self.write_in_header(start);
            }
            (_, None) | (KeptAs::Entries, _) => {
                self.declare();
                self.write_in_map();
            }
        }
        self.write_changes();
    }

    /// The prefix of the keys of its groups in the map.
    fn prefix(&self) -> String {
        quoted(format!("{}.", self.view.name).as_bytes())
    }

    fn declare(&mut self) {
        let (name, prefix) = (&self.name, self.prefix());
        let (first, last) =
            (self.view.keys.len() + 1, self.view.keys.len() + self.view.aggregates.len());
        self.out
            .put(format!("local {name} = {{ prefix = {prefix}, first = {first}, last = {last} }}"));
    }

    /// The types of the group's columns.
    pub(super) fn key_types(&self) -> Vec<Type> {
        let table = self.program.collection(self.view.table);
        self.view.keys.iter().map(|key| table.columns[*key].ty).collect()
    }

    /// The types of the parts of a state: the number of rows, then the stored values.
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

    /// The row of an empty table.
    fn of_nothing(&self) -> String {
        let defaults = self.view.aggregates.iter().filter_map(|one| one.default.as_ref());
        let defaults: Vec<_> = defaults.map(value).collect();
        if defaults.is_empty() {
            "nil".to_owned()
        } else {
            format!("{{ {} }}", defaults.join(", "))
        }
    }

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
        let (name, none) = (&self.name, self.of_nothing());
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

    fn write_in_map(&mut self) {
        let (prefix, states) = (self.prefix(), self.state_types());
        self.write_row(&states);
        self.write_get(&prefix);
        self.write_load(&prefix, &states);
        self.write_store(&prefix, &states);
    }

    fn write_row(&mut self, states: &[Type]) {
        let keys = self.key_types();
        self.out.open(format!("function {}.row(key, value)", self.name));
        let mut columns = read_key(&keys, self.runtime, self.out);
        let state = read_value(states, self.runtime, self.out);
        columns.extend(self.aggregates(&state));
        self.out.put(format!("return {{ {} }}", columns.join(", ")));
        self.out.close("end");
    }

    fn write_get(&mut self, prefix: &str) {
        let (name, get) = (&self.name, self.runtime.need("get"));
        self.out.open(format!("function {name}.get(_, key)"));
        self.out.put(format!("local value = {get}({prefix} .. key)"));
        self.out.put(format!("return value and {name}.row(key, value)"));
        self.out.close("end");
    }

    fn write_load(&mut self, prefix: &str, states: &[Type]) {
        let get = self.runtime.need("get");
        self.out.open(format!("function {}.load(_, key)", self.name));
        self.out.put(format!("local value = {get}({prefix} .. key)"));
        self.out.open("if value then");
        let state = read_value(states, self.runtime, self.out);
        self.out.put(format!("return {{ {} }}", state.join(", ")));
        self.out.close("end");
        let blank: Vec<_> = states.iter().flat_map(|ty| encoding::blank(*ty)).collect();
        self.out.put(format!("return {{ {} }}", blank.join(", ")));
        self.out.close("end");
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
}
