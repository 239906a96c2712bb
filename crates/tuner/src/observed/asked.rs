//! The called methods of a class, with the facts about them from its program.

use nacre_brados::ir::{self, CollectionId, Program};
use nacre_brados::{Base, Compiled, Kind};
use nacre_class::{CallsSeen, MethodSeen};

/// A method that was called, recently or earlier.
pub(super) struct Asked<'a> {
    pub name: &'a str,
    pub seen: &'a MethodSeen,
    pub columns: Vec<Asking<'a>>,
    pub writes: bool,
    /// Whether it adds rows to a table that can have many.
    pub grows: bool,
}

/// A column of a request.
pub(super) struct Asking<'a> {
    pub name: &'a str,
    pub base: Base,
    /// Whether a table that can have many rows has a key column of this name.
    pub is_key: bool,
}

pub(super) fn asked<'a>(compiled: &'a Compiled, seen: &'a CallsSeen) -> Vec<Asked<'a>> {
    let program = &compiled.analysis.program;
    let plan = |name: &str| {
        let is_it = |input: CollectionId| program.collection(input).name == name;
        compiled.plan.methods.iter().find(|method| is_it(method.input))
    };
    let methods = seen.methods.iter();
    methods
        .filter(|(_, seen)| seen.requests > 0 || seen.looked_into() > 0)
        .filter_map(|(name, seen)| {
            let plan = plan(name)?;
            let (writes, grows) = (plan.writes(program), plan.grows(program));
            let columns = &program.collection(plan.input).columns;
            let asking = |column: &'a ir::Column| Asking {
                name: &column.name,
                base: column.ty.base,
                is_key: is_key(program, &column.name),
            };
            let columns = columns.iter().map(asking).collect();
            Some(Asked { name, seen, columns, writes, grows })
        })
        .collect()
}

/// Whether a table that can have many rows has a key column of this name.
fn is_key(program: &Program, name: &str) -> bool {
    program.of_kind(Kind::Table).any(|id| {
        let table = program.collection(id);
        let mut key = table.columns.iter().take(table.key_width);
        !table.is_singleton() && key.any(|column| column.name == name)
    })
}
