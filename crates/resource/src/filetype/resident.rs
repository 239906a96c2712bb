//! `Resident`: a file type that stays loaded, with the state in its VM, for a client that holds a
//! capability.
//!
//! [`FileType::call`] loads the program for each call and copies the state in and out. Here the
//! program and the state stay in the VM, so a call costs about a microsecond.
//!
//! A call must have the same result in the loaded program as by [`FileType::call`], so the program
//! must keep nothing between calls. Therefore everything that its functions can reach is made
//! read-only. If that is not possible, the program is refused. If a call fails here, the caller
//! repeats it with [`FileType::call`] and uses that result.
//!
//! **Invariant:** after a failed call, and after [`Resident::undo`], the state is as before the
//! call.

use std::collections::BTreeMap;
use std::sync::Arc;

use mlua::Function;
use nacre_clock::Clock;
use nacre_object::{Error, Result};
use nacre_script::{Library, Script, Terms, Vm, freeze, json_to_lua};
use serde_json::Value;

use super::file_type::{READ_OUTPUT, STATE, WRITE_OUTPUT, no_method};
use super::library::TypeLibrary;
use super::{Access, FileType, Outcome};
use crate::limits::{CALL_BUDGET, MAX_DEPTH, MAX_STATE_BYTES};

/// A Luau chunk that returns three functions.
///
/// - `look` calls a method that reads.
/// - `change` calls a method that writes, and copies the state.
/// - `copy` makes a read-only copy of a state. It fails for states that may not be valid JSON
///   within the bounds of [`STATE`]. It also fails for large states: to copy them would be as slow
///   as to load the program for each call.
const CALLER: &str = r#"
local CLIENT, TENANT, MAX_DEPTH, MAX_BYTES = ...
-- The most that JSON takes for a byte of a string, and for any other value.
local BYTE, VALUE = 6, 30
local MAX_NAMES = 256

local room
-- What names of fields take, for some of those that were seen.
local names, known = {}, 0

local function size_of(text)
  assert(utf8.len(text))
  return VALUE + BYTE * #text
end

local function size_of_name(name)
  local size = size_of(name)
  if known < MAX_NAMES then
    names[name], known = size, known + 1
  end
  return size
end

local function copy_table(value, depth)
  assert(depth > 0 and getmetatable(value) == nil)
  local copied = table.clone(value)
  local entries, named, taken = 0, 0, 0
  for key, entry in copied do
    entries += 1
    taken += VALUE
    if type(key) == "string" then
      named += 1
      taken += names[key] or size_of_name(key)
    end
    local kind = type(entry)
    if kind == "number" then
      if entry - entry ~= 0 then error("no finite number") end
    elseif kind == "table" then
      copied[key] = copy_table(entry, depth - 1)
    elseif kind == "string" then
      taken += size_of(entry)
    elseif kind ~= "boolean" then
      error("no value of JSON")
    end
  end
  room -= taken
  assert(room > 0 and (named == entries or named == 0 and #copied == entries))
  return table.freeze(copied)
end

local function copy(value)
  room = MAX_BYTES
  local kind = type(value)
  if kind == "table" then
    return copy_table(value, MAX_DEPTH)
  elseif kind == "string" then
    assert(size_of(value) < MAX_BYTES)
  else
    assert(kind == "nil" or kind == "boolean" or kind == "number" and value - value == 0)
  end
  return value
end

local function about(now)
  return table.freeze({ client = CLIENT, tenant = TENANT, now = now })
end

local function look(method, state, input, now)
  return method(state, input, about(now))
end

local function change(method, state, input, now)
  local output = method(state, input, about(now))
  return output, copy(state)
end

return look, change, copy
"#;

/// A file type that stays loaded, with the state of one resource.
pub(crate) struct Resident {
    vm: Vm,
    script: Script,
    library: TypeLibrary,
    methods: BTreeMap<String, (Access, Function)>,
    look: Function,
    change: Function,
    /// The state; methods that write change it in place.
    state: mlua::Value,
    /// A read-only copy, which methods that read see.
    kept: mlua::Value,
    /// The state of before the last call that changed it.
    before: Option<mlua::Value>,
    clock: Arc<dyn Clock>,
}

// SAFETY: this struct owns all values with non-atomic reference counts (the VM's values, its meter,
// the library's cells). No clone of them leaves the struct, so they move between threads together.
// A run begins and ends within one call on one thread, and leaves nothing in thread-local storage.
unsafe impl Send for Resident {}

impl Resident {
    /// Loads a file type with a state. Its methods see the holder as `client` and `tenant`. Returns
    /// `None` if the program could keep something between calls, or if the type is native.
    ///
    /// # Errors
    /// Those of the program.
    pub fn load(
        file_type: &FileType,
        state: &Value,
        (client, tenant): (&str, &str),
        clock: &Arc<dyn Clock>,
    ) -> Result<Option<Self>> {
        let (name, version) = (file_type.name(), file_type.version());
        let Some(source) = file_type.source() else { return Ok(None) };
        let script = Script::compile(name, version, source.as_bytes())
            .map_err(|error| error.into_fault(name, version))?
            .kept();
        let mut library = None;
        let mut vm = Vm::new(|host| {
            library = Some(TypeLibrary::install(host)?);
            Ok(())
        })?;
        let library = library.ok_or_else(|| Error::corrupt("a VM was made without its library"))?;
        let methods;
        let loaded = {
            let terms = Terms { budget: &CALL_BUDGET, clock, seed: 0 };
            let run = vm.start(&script, &terms)?;
            run.load()?;
            run.keep();
            library.set_loaded();
            methods = library.all_methods();
            let lua = run.lua();
            let load = || -> mlua::Result<_> {
                let functions = methods.values().map(|(_, function)| function);
                if !freeze(lua, run.globals(), functions)? {
                    return Ok(None);
                }
                let caller = lua.load(CALLER).set_name("=caller");
                let bounds = (client, tenant, MAX_DEPTH, MAX_STATE_BYTES);
                let (look, change, copy): (Function, Function, Function) = caller.call(bounds)?;
                let state = json_to_lua(lua, state)?;
                let kept: mlua::Value = copy.call(&state)?;
                Ok(Some((look, change, state, kept)))
            };
            load().map_err(|error| run.explain(&error))?
        };
        let Some((look, change, state, kept)) = loaded else { return Ok(None) };
        let (before, clock) = (None, Arc::clone(clock));
        Ok(Some(Self { vm, script, library, methods, look, change, state, kept, before, clock }))
    }

    /// Runs a method. A method that writes changes the state in the VM, so the outcome contains no
    /// state.
    ///
    /// # Errors
    /// As [`FileType::call`], which the caller must then use to repeat the call.
    pub fn call(&mut self, method: &str, input: &Value, now_micros: u64) -> Result<Outcome> {
        self.before = None;
        let called = self.run(method, input, now_micros);
        if called.is_err() {
            self.reset()?;
        }
        called
    }

    fn run(&mut self, method: &str, input: &Value, now_micros: u64) -> Result<Outcome> {
        let Some((access, function)) = self.methods.get(method) else {
            return Err(no_method(method, self.methods.keys()));
        };
        self.library.forget_store();
        let terms = Terms { budget: &CALL_BUDGET, clock: &self.clock, seed: now_micros };
        let run = self.vm.start(&self.script, &terms)?;
        let input = json_to_lua(run.lua(), input).map_err(|error| run.explain(&error))?;
        let now = now_micros as f64 / 1e6;
        Ok(match access {
            Access::Read => {
                let output: mlua::Value =
                    run.call_for(&self.look, (function, &self.kept, input, now))?;
                let output = READ_OUTPUT.from_lua(&output)?;
                Outcome { state: None, output, must_store: false }
            }
            Access::Write => {
                let (output, copied): (mlua::Value, mlua::Value) =
                    run.call_for(&self.change, (function, &self.state, input, now))?;
                let must_store = self.library.must_store();
                let output = WRITE_OUTPUT.from_lua(&output)?;
                self.before = Some(std::mem::replace(&mut self.kept, copied));
                Outcome { state: None, output, must_store }
            }
        })
    }

    /// Undoes the last call, if it changed the state.
    ///
    /// # Errors
    /// Those of the VM. After an error, the caller must drop this value.
    pub fn undo(&mut self) -> Result<()> {
        if let Some(before) = self.before.take() {
            self.kept = before;
        }
        self.reset()
    }

    /// The state.
    ///
    /// # Errors
    /// `Invalid` or `Exhausted` if the state may not be stored.
    pub fn state(&self) -> Result<Value> {
        STATE.from_lua(&self.kept)
    }

    /// Replaces the state that methods see by a copy of the kept state.
    fn reset(&mut self) -> Result<()> {
        let kept = STATE.from_lua(&self.kept)?;
        let terms = Terms { budget: &CALL_BUDGET, clock: &self.clock, seed: 0 };
        let run = self.vm.start(&self.script, &terms)?;
        self.state = json_to_lua(run.lua(), &kept).map_err(|error| run.explain(&error))?;
        Ok(())
    }
}
