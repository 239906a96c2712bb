//! Map programs: a say in every commit of a map.
//!
//! A map program is a Luau chunk that defines a global function `commit(proposal, map)`. It runs
//! inside the commit: what it decides happens with the commit or not at all.
//!
//! - `proposal.map`, `.source` (who commits, as authenticated), `.epoch` (that would begin), `.at`
//!   (microseconds since 1970), `.chain` (names of the maps whose programs triggered it, the first
//!   in front; empty for a commit somebody asked for).
//! - `proposal.changes`: an array of `{key=…, value=…}`, without `value` for a removal. What it is
//!   when the function returns is what is committed.
//! - `map.get(key)`: the value before the commit, or nil.
//! - `map.deny(text)`, `map.invalid(text)`: the commit fails with `Denied` or `Invalid`.
//! - `map.trigger(name, changes)`: commits these changes to another map once this one is committed; not
//!   to one of nacre's own, nor to the view of a log.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use mlua::{Function, Lua, MultiValue, Scope, Table, Value};
use nacre_clock::{Clock, SystemClock};
use nacre_object::{CallContext, Error, FaultSite, MapName, Result};
use nacre_script::{Budget, CompileError, Digest, Run, Script, Terms, Vm, raise};

use super::Change;
use super::class::check_commit_bytes;
use super::object::MapObject;
use super::own::check_triggered;
use crate::limits::{MAX_CHANGES, MAX_TRIGGERS};

/// The function a map program defines.
const HOOK: &str = "commit";
/// Compiled programs a thread keeps, the least recently used going first.
const MAX_CACHED_SCRIPTS: usize = 16;

/// A program bound to a map.
pub(super) struct Policy<'a> {
    pub(super) map: &'a str,
    pub(super) version: u64,
    pub(super) source: &'a [u8],
}

/// A commit to be judged.
pub(super) struct Proposal<'a> {
    pub(super) epoch: u64,
    pub(super) changes: Vec<Change>,
    pub(super) chain: &'a [String],
    pub(super) context: &'a CallContext,
}

/// What is to be committed, and what that triggers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) changes: Vec<Change>,
    pub(super) triggers: Vec<(MapName, Vec<Change>)>,
}

/// A thread's VM with the programs it has compiled, the most recently used last.
struct Sandbox {
    vm: Vm,
    scripts: Vec<Rc<Script>>,
    clock: Arc<dyn Clock>,
}

thread_local! {
    static SANDBOX: RefCell<Option<Sandbox>> = const { RefCell::new(None) };
}

impl Policy<'_> {
    /// Says that what failed a check is of the program's making.
    pub(super) fn blame(&self, error: Error) -> Error {
        let (program, version) = (script_name(self.map), self.version);
        error.with_fault(FaultSite { program, version, ..FaultSite::default() })
    }

    /// Runs the program on a proposal.
    ///
    /// # Errors
    /// `Denied` and `Invalid` as the program says; `Fault` if it fails; `Exhausted` past its
    /// budget; those of reading the map.
    pub(super) fn judge(&self, proposal: Proposal, map: &mut MapObject) -> Result<Verdict> {
        SANDBOX.with_borrow_mut(|sandbox| {
            if sandbox.as_ref().is_none_or(|sandbox| sandbox.vm.is_damaged()) {
                *sandbox = Some(Sandbox::new()?);
            }
            let sandbox = sandbox.as_mut().expect("it was made just now");
            let script = sandbox.script(self)?;
            sandbox.judge(&script, self.map, proposal, map)
        })
    }
}

fn script_name(map: &str) -> String {
    format!("map/{map}")
}

impl Sandbox {
    fn new() -> Result<Self> {
        let clock = Arc::new(SystemClock::default());
        Ok(Self { vm: Vm::new(|_| Ok(()))?, scripts: Vec::new(), clock })
    }

    fn script(&mut self, policy: &Policy) -> Result<Rc<Script>> {
        let (name, digest) = (script_name(policy.map), Digest::of(policy.source));
        let same = |script: &Rc<Script>| {
            script.digest() == digest && script.version() == policy.version && script.name() == name
        };
        let script = match self.scripts.iter().position(same) {
            Some(at) => self.scripts.remove(at),
            None => Rc::new(
                Script::compile(&name, policy.version, policy.source)
                    .map_err(|error| error.into_fault(&name, policy.version))?,
            ),
        };
        if self.scripts.len() >= MAX_CACHED_SCRIPTS {
            self.scripts.remove(0);
        }
        self.scripts.push(script.clone());
        Ok(script)
    }

    fn judge(
        &mut self,
        script: &Script,
        name: &str,
        proposal: Proposal,
        map: &mut MapObject,
    ) -> Result<Verdict> {
        let budget = Budget::default();
        let terms = Terms { budget: &budget, clock: &self.clock, seed: proposal.epoch };
        let run = self.vm.start(script, &terms)?;
        let hook = load_hook(&run)?;
        let triggers = RefCell::new(Vec::new());
        let map = RefCell::new(map);
        // Borrowed by the functions the program is handed: gone when it returns.
        let judged = run.lua().scope(|scope| {
            let argument = proposal_table(run.lua(), name, &proposal)?;
            let handle = map_table(run.lua(), scope, &map, &triggers)?;
            Ok(run.call(&hook, (argument.clone(), handle)).and_then(|_| {
                let changes = argument.raw_get("changes").map_err(|error| run.explain(&error))?;
                let fault = |text| Error::fault_at(site_of(script), text);
                read_changes(&changes, fault).map_err(|error| error.with_fault(site_of(script)))
            }))
        });
        let changes = judged.map_err(|error| run.explain(&error))??;
        Ok(Verdict { changes, triggers: triggers.into_inner() })
    }
}

/// Executes the chunk and finds the hook.
fn load_hook(run: &Run) -> Result<Function> {
    run.load()?;
    match run.global(HOOK)? {
        Value::Function(hook) => Ok(hook),
        _ => Err(Error::invalid(format!("a map program defines a function `{HOOK}`"))),
    }
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
            let text = format!("one commit triggers at most {MAX_TRIGGERS} others");
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

/// A change as the program has it.
struct Proposed {
    key: mlua::LuaString,
    value: Option<mlua::LuaString>,
}

/// Reads an array of changes; `odd` makes an error of what is odd about it. One text of the VM may be in each of
/// them: no more is copied than a commit may have.
fn read_changes(changes: &Table, odd: impl Fn(String) -> Error) -> Result<Vec<Change>> {
    // One more than fits is enough to be told so.
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

/// Why a source is no map program.
#[derive(Debug)]
pub(crate) enum PolicyError {
    /// It does not compile.
    Compile(CompileError),
    /// Its dry run failed.
    DryRun(Error),
}

/// Compiles and dry-runs a source: executes the chunk, without a map, and looks for the hook.
pub(crate) fn check_policy(name: &str, source: &str) -> Result<(), PolicyError> {
    let script = Script::compile(name, 0, source.as_bytes()).map_err(PolicyError::Compile)?;
    let dry_run = || {
        let mut sandbox = Sandbox::new()?;
        let budget = Budget::default();
        let terms = Terms { budget: &budget, clock: &sandbox.clock, seed: 0 };
        load_hook(&sandbox.vm.start(&script, &terms)?).map(|_| ())
    };
    dry_run().map_err(PolicyError::DryRun)
}
