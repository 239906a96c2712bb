//! Turns a plan into a class: Lua code in the common subset of Luau and Lua 5.3.
//!
//! The class consists of, in this order: the parts of the runtime that it uses (`runtime.lua`);
//! access to stored rows ([`stored`], [`view`]); a method for each input ([`method`]); and the
//! registration of the methods. A method decodes its request, computes its relations and decides
//! what to write. It writes and replies only after it has found no conflict.
//!
//! Modules for the parts of a method:
//! - rules: [`rule`] (nested steps), [`access`] (the rows of a step), [`target`] (where a rule's
//!   rows go), [`expression`], [`aggregate`];
//! - rows in local variables: [`row`], [`scalar`], [`look_up`], [`int_key`];
//! - the end of a method: [`commit`], [`only_change`], [`send`];
//! - the input and output of a method: [`request`], [`reply`], [`pack`].
//!
//! Modules for stored data: the header ([`header`]), tables ([`stored`], [`place`]), and stored
//! aggregates ([`view`], [`view_changes`]).
//!
//! **Invariant:** every read comes before the first write. So it does not matter whether reads see
//! earlier writes of the request (in a stock OSD they do not). A method whose rules cannot write is
//! registered as read-only.
//!
//! **Invariant:** nothing that a class defines changes after its chunk has run. The state of a
//! request is in local variables and in the table `object`. Requests of a batch share only the
//! header, in a table that the caller of the batch passes. So a sandbox may run the chunk once for
//! many calls.

mod access;
mod aggregate;
mod commit;
mod condition;
pub(crate) mod encoding;
mod expression;
mod header;
mod int_key;
mod layouts;
mod literal;
mod look_up;
mod method;
mod only_change;
mod pack;
mod place;
mod reply;
mod request;
mod row;
mod rule;
mod runtime;
mod scalar;
mod send;
mod stored;
mod target;
mod view;
mod view_changes;
mod writer;

pub use self::header::HEADER_KEY as LAYOUT_KEY;
pub use self::writer::LineMap;

use self::layouts::Layouts;
use self::method::MethodWriter;
use self::runtime::Runtime;
use self::writer::Writer;
use crate::ir::{CollectionId, Program};
use crate::plan::{ClassPlan, Relation, Step, View};
use crate::span::LineIndex;
use crate::syntax::ast::Kind;

/// A compiled program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// Its source, in Lua.
    pub lua: String,
    /// The line of the program for each line of the class.
    pub lines: LineMap,
}

pub(crate) fn emit(program: &Program, plan: &ClassPlan, source: &str) -> Class {
    let lines = LineIndex::new(source);
    let mut runtime = Runtime::default();
    runtime.need("names");
    let mut body = Writer::default();
    let layouts = Layouts::new(program, &plan.views);
    write_stored(program, plan, &layouts, &lines, &mut runtime, &mut body);
    for view in &plan.views {
        body.line = lines.line(program.rules[view.rule].span.start);
        view::write(&layouts, view, &mut runtime, &mut body);
    }
    for name in program
        .of_kind(Kind::Table)
        .map(Relation::Stored)
        .chain(plan.views.iter().map(|view| Relation::View(view.collection)))
    {
        let freeze = runtime.need("freeze");
        body.put(format!("{freeze}({})", relation_name(program, name)));
    }
    for method in &plan.methods {
        let (runtime, out) = (&mut runtime, &mut body);
        MethodWriter::new(program, plan, method, &layouts, &lines, runtime, out).write();
    }
    if program.has_drained_channels() {
        runtime.need("outbox");
    }
    let mut class = Writer::default();
    class.put_text("-- Generated from a Brados program; change that instead.");
    class.put_text(&runtime.text());
    class.append(body);
    let (lua, lines) = class.finish();
    Class { lua, lines }
}

/// The signature of objects in each layout of a program, the present layout first.
pub(crate) fn signatures(program: &Program, views: &[View]) -> Vec<String> {
    Layouts::new(program, views).all.into_iter().map(|layout| layout.signature).collect()
}

/// Writes the functions for the header and for each table.
fn write_stored(
    program: &Program,
    plan: &ClassPlan,
    layouts: &Layouts<'_>,
    lines: &LineIndex,
    runtime: &mut Runtime,
    out: &mut Writer,
) {
    if layouts.has_former() || plan.methods.iter().any(|method| uses_store(program, method)) {
        header::write(layouts, &plan.views, runtime, out);
    }
    place::write_heaps(layouts, runtime, out);
    let mut placed = vec![];
    for table in program.of_kind(Kind::Table) {
        out.line = lines.line(program.collection(table).span.start);
        let name = relation_name(program, Relation::Stored(table));
        stored::write_table(layouts, table, &name, runtime, out);
        placed.extend(layouts.is_placed(table).then_some(name));
    }
    out.line = 0;
    if layouts.has_former() {
        header::write_layouts(layouts, &plan.views, &placed, runtime, out);
    }
}

/// Whether a method reads or writes stored data.
fn uses_store(program: &Program, method: &crate::plan::MethodPlan) -> bool {
    method.rules().any(|plan| {
        let is_stored = |relation: &Relation| !matches!(relation, Relation::Local(_));
        let absent = plan.steps.iter().any(|step| match step {
            Step::Absent { relation, .. } => is_stored(relation),
            _ => false,
        });
        let contained = contains_table(program, plan.rule);
        let head = program.collection(program.rules[plan.rule].head).kind;
        absent
            || contained
            || plan.sources.iter().any(is_stored)
            || matches!(head, Kind::Table | Kind::Channel)
    })
}

fn contains_table(program: &Program, rule: usize) -> bool {
    let reads = program.rules[rule].body.reads(program.rules[rule].span);
    reads.iter().any(|(id, ..)| program.collection(*id).kind == Kind::Table)
}

/// The name of a relation in the class. No keyword of Lua has this form.
fn relation_name(program: &Program, relation: Relation) -> String {
    let CollectionId(id) = relation.collection();
    let collection = program.collection(CollectionId(id));
    let base = if collection.is_anonymous { "step" } else { &collection.name };
    match (relation, collection.kind) {
        (Relation::Stored(_), _) => format!("{base}_t{id}"),
        (Relation::View(_), _) => format!("{base}_v{id}"),
        (Relation::Local(_), Kind::Table) => format!("{base}_n{id}"),
        (Relation::Local(_), _) => format!("{base}_{id}"),
    }
}
