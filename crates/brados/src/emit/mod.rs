//! A plan as a class: Lua text in what Luau and Lua 5.3 have in common.
//!
//! The class has, in this order: the parts of the runtime it uses (`runtime.lua`); access to what is
//! stored ([`stored`], [`view`]); a method for each input ([`method`]); their registration. A method
//! decodes its request, computes its relations, finds out what is to be written, and only when no
//! conflict is left writes and replies.
//!
//! **Invariant:** every read comes before the first write, so that it does not matter whether reads
//! see earlier writes (in a stock OSD they do not). A method whose program cannot write is declared
//! read-only.
//!
//! **Invariant:** once its chunk was executed nothing a class defines ever changes: what a request knows
//! is in its own locals and the table `object`. So a sandbox may execute the chunk once for many calls.

mod aggregate;
mod commit;
mod encoding;
mod expression;
mod message;
mod method;
mod rule;
mod runtime;
mod stored;
mod view;
mod writer;

pub use self::writer::LineMap;

use self::method::MethodWriter;
use self::runtime::Runtime;
use self::stored::Header;
use self::view::ViewWriter;
use self::writer::Writer;
use crate::ir::{CollectionId, Program};
use crate::plan::{ClassPlan, Relation, Step};
use crate::span::LineIndex;
use crate::syntax::ast::Kind;

/// A compiled program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// Its source, in Lua.
    pub lua: String,
    /// Which line of the program each line of it comes from.
    pub lines: LineMap,
}

pub(crate) fn emit(program: &Program, plan: &ClassPlan, source: &str) -> Class {
    let lines = LineIndex::new(source);
    let mut runtime = Runtime::default();
    runtime.need("names");
    let mut body = Writer::default();
    let header = Header::new(program, &plan.views);
    if plan.methods.iter().any(|method| uses_store(program, method)) {
        header.write(&mut runtime, &mut body);
    }
    for table in program.of_kind(Kind::Table) {
        body.line = lines.line(program.collection(table).span.start);
        let name = relation_name(program, Relation::Stored(table));
        stored::write_table(program, &header, table, &name, &mut runtime, &mut body);
    }
    for view in &plan.views {
        body.line = lines.line(program.rules[view.rule].span.start);
        let name = relation_name(program, Relation::View(view.collection));
        let table = relation_name(program, Relation::Stored(view.table));
        let (runtime, out) = (&mut runtime, &mut body);
        ViewWriter { program, header: &header, view, name, table, runtime, out }.write();
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
        MethodWriter::new(program, plan, method, &lines, runtime, out).write();
    }
    if program.of_kind(Kind::Channel).next().is_some() {
        runtime.need("outbox");
    }
    let mut class = Writer::default();
    class.put_text("-- Generated from a Brados program; change that instead.");
    class.put_text(&runtime.text());
    class.append(body);
    let (lua, lines) = class.finish();
    Class { lua, lines }
}

/// Whether a method reads or writes what is stored.
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

/// What a relation is called in the class: names that no keyword of Lua is like.
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
