//! Runs map programs. A map program decides about every commit of its map.
//!
//! A map program is a Luau chunk that defines a global function `commit(proposal, map)`. The
//! function runs inside the commit: its effects happen together with the commit or not at all.
//!
//! - `proposal.map`: the name of the map;
//! - `proposal.source`: the authenticated committer;
//! - `proposal.epoch`: the epoch that the commit would begin;
//! - `proposal.at`: the time in microseconds since 1970;
//! - `proposal.chain`: if other maps' programs triggered this commit, the names of these maps,
//!   beginning with the first; else empty;
//! - `proposal.changes`: an array of `{key=…, value=…}`, without `value` for a removal. The
//!   function may change it; the commit makes the changes that it contains at the end;
//! - `map.get(key)`: the value before the commit, or nil;
//! - `map.deny(text)`, `map.invalid(text)`: fail the commit with `Denied` or `Invalid`;
//! - `map.trigger(name, changes)`: commits these changes to another map after this commit. The
//!   other map must not be one of nacre's own, nor the view of a log.

use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;
use mlua::{Function, Lua, MultiValue, Scope, Table, Value};
use nacre_clock::{Clock, SystemClock};
use nacre_object::{Error, FaultSite, MapName, Result};
use nacre_script::{LoadedVm, ProgramVm, Run, Script, Terms, Vm, raise};

use super::interface::MAP_INTERFACE;
use crate::limits::{MAX_CHANGES, MAX_TRIGGERS};
use crate::maps::{
    Change, MapObject, Policy, Proposal, Verdict, check_commit_bytes, check_triggered,
};

thread_local! {
    static VM: ProgramVm<()> = const { ProgramVm::new() };
}

/// Runs a map program on a proposed commit.
///
/// # Errors
/// `Denied` or `Invalid` if the program refuses the commit; `Fault` if the program fails;
/// `Exhausted` if it exceeds its budget; errors of reading the map.
pub(crate) fn run_policy(
    policy: &Policy<'_>,
    proposal: Proposal<'_>,
    map: &mut MapObject,
) -> Result<Verdict> {
    let judge = |loaded: &mut LoadedVm<()>| {
        let script = loaded.script(&policy.program(), policy.version, policy.source)?;
        judge_in(&mut loaded.vm, &script, policy.map, proposal, map)
    };
    VM.with(|vm| vm.with(judge))
}

/// Executes the chunk, without a map, and looks for the function that it must define.
pub(super) fn dry_run(script: &Script) -> Result<()> {
    VM.with(|vm| vm.with(|loaded| with_run(&mut loaded.vm, script, 0, |_, _| Ok(()))))
}

/// Begins a run of the program and calls `body` with the program's function `commit`. `seed` seeds
/// the program's random numbers; it is the commit's epoch.
fn with_run<R>(
    vm: &mut Vm,
    script: &Script,
    seed: u64,
    body: impl FnOnce(&Run<'_>, &Function) -> Result<R>,
) -> Result<R> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let terms = Terms { budget: &MAP_INTERFACE.budget, clock: &clock, seed };
    let run = vm.start(script, &terms)?;
    let [commit] = &run.load_functions(&MAP_INTERFACE)?[..] else {
        return Err(Error::invalid("the map program does not define the function `commit`")
            .hint("define `function commit(proposal, map) … end`"));
    };
    body(&run, commit)
}

fn judge_in(
    vm: &mut Vm,
    script: &Script,
    name: &str,
    proposal: Proposal,
    map: &mut MapObject,
) -> Result<Verdict> {
    with_run(vm, script, proposal.epoch, |run, commit| {
        let triggers = RefCell::new(Vec::new());
        let map = RefCell::new(map);
        // The Luau functions of the table `map` borrow the Rust map, so the program must not be
        // able to call them later. The scope ensures this.
        let judged = run.lua().scope(|scope| {
            let argument = proposal_table(run.lua(), name, &proposal)?;
            let handle = map_table(run.lua(), scope, &map, &triggers)?;
            Ok(run.call(commit, (argument.clone(), handle)).and_then(|_| {
                let changes = argument.raw_get("changes").map_err(|error| run.explain(&error))?;
                let fault = |text| Error::fault_at(site_of(script), text);
                read_changes(&changes, fault).map_err(|error| error.with_fault(site_of(script)))
            }))
        });
        let changes = judged.map_err(|error| run.explain(&error))??;
        Ok(Verdict { changes, triggers: triggers.into_inner() })
    })
}

fn site_of(script: &Script) -> FaultSite {
    let (program, version) = (script.name().to_owned(), script.version());
    FaultSite { program, version, ..FaultSite::default() }
}

fn proposal_table(lua: &Lua, name: &str, proposal: &Proposal) -> mlua::Result<Table> {
    let changes = lua.create_table_with_capacity(proposal.changes.len(), 0)?;
    for change in &proposal.changes {
        let entry = lua.create_table()?;
        entry.raw_set("key", change.key())?;
        if let Some(value) = change.value() {
            entry.raw_set("value", lua.create_string(value)?)?;
        }
        changes.raw_push(entry)?;
    }
    let table = lua.create_table()?;
    table.raw_set("map", name)?;
    table.raw_set("source", proposal.context.source.as_str())?;
    table.raw_set("epoch", proposal.epoch as f64)?;
    table.raw_set("at", proposal.context.now_micros as f64)?;
    table.raw_set("chain", lua.create_sequence_from(proposal.chain.iter().map(String::as_str))?)?;
    table.raw_set("changes", changes)?;
    Ok(table)
}

fn map_table<'scope, 'env>(
    lua: &Lua,
    scope: &'scope Scope<'scope, 'env>,
    map: &'scope RefCell<&mut MapObject>,
    triggers: &'scope RefCell<Vec<(MapName, Vec<Change>)>>,
) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let get = scope.create_function(|lua, key: String| {
        let value = map.borrow_mut().entry(&key).map_err(raise)?;
        value.map(|value| lua.create_string(value)).transpose()
    })?;
    let trigger = scope.create_function(|_, (name, changes): (String, Table)| {
        let name = MapName::new(&name).map_err(raise)?;
        check_triggered(name.as_str()).map_err(raise)?;
        if triggers.borrow().len() >= MAX_TRIGGERS {
            let text = format!("a commit triggers more than {MAX_TRIGGERS} other commits");
            return Err(raise(Error::exhausted(text)));
        }
        let changes = read_changes(&changes, Error::invalid).map_err(raise)?;
        triggers.borrow_mut().push((name, changes));
        Ok(())
    })?;
    let refuse_with = |refuse: fn(String) -> Error| {
        scope.create_function(move |_, text: mlua::LuaString| {
            Err::<MultiValue, _>(raise(refuse(text.to_string_lossy())))
        })
    };
    table.raw_set("get", get)?;
    table.raw_set("trigger", trigger)?;
    table.raw_set("deny", refuse_with(Error::denied)?)?;
    table.raw_set("invalid", refuse_with(Error::invalid)?)?;
    table.set_readonly(true);
    Ok(table)
}

/// A change as a Lua table.
struct Proposed {
    key: mlua::LuaString,
    value: Option<mlua::LuaString>,
}

/// Reads an array of changes. `odd` makes the error from a description of what is wrong. A program
/// can put the same large VM string into every change, and each change gets a copy. So the total
/// size is checked while the strings are copied.
fn read_changes(changes: &Table, odd: impl Fn(String) -> Error) -> Result<Vec<Change>> {
    // One change more than allowed is enough to find that there are too many.
    let length = changes.raw_len().min(MAX_CHANGES + 1);
    let mut bytes = 0;
    let read = |index| {
        let change = proposed_change(changes, index).map_err(&odd)?;
        bytes += change.bytes();
        check_commit_bytes(bytes)?;
        change.read(index).map_err(&odd)
    };
    (1..=length).map(read).collect()
}

fn proposed_change(changes: &Table, index: usize) -> Result<Proposed, String> {
    let odd = |what: &str, value: &Value| {
        format!("{what} of change {index} is a {}, not a string", value.type_name())
    };
    let Ok(Value::Table(change)) = changes.raw_get::<Value>(index) else {
        return Err(format!("change {index} is not a table with a key"));
    };
    let field = |name: &str| change.raw_get::<Value>(name).unwrap_or(Value::Nil);
    let key = match field("key") {
        Value::String(key) => key,
        other => return Err(odd("the key", &other)),
    };
    match field("value") {
        Value::Nil => Ok(Proposed { key, value: None }),
        Value::String(value) => Ok(Proposed { key, value: Some(value) }),
        other => Err(odd("the value", &other)),
    }
}

impl Proposed {
    /// Of key and value.
    fn bytes(&self) -> usize {
        self.key.as_bytes().len() + self.value.as_ref().map_or(0, |value| value.as_bytes().len())
    }

    fn read(&self, index: usize) -> Result<Change, String> {
        let not_text = |_| format!("the key of change {index} is not UTF-8");
        let key = self.key.to_str().map_err(not_text)?.to_owned();
        Ok(match &self.value {
            Some(value) => Change::set(key, Bytes::copy_from_slice(&value.as_bytes())),
            None => Change::remove(key),
        })
    }
}
