//! A VM: the sandbox of one thread, with the scripts that it has loaded.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, Table, Value, VmState};
use nacre_clock::Random;
use nacre_object::{Error, Result};
use nacre_program::Limit;

use crate::Script;
use crate::environment::{Environment, new_lua};
use crate::fault::{explain, site_of};
use crate::host::Host;
use crate::limits::{MAX_CACHED_CHUNKS, MAX_RETAINED_BYTES};
use crate::meter::Meter;
use crate::names::FreeName;
use crate::quantum;
use crate::run::{Run, Terms};

/// A sandboxed VM. It belongs to one thread and runs one script at a time.
pub struct Vm {
    lua: Lua,
    environment: Environment,
    meter: Rc<Meter>,
    random: Rc<RefCell<Random>>,
    chunks: RefCell<Vec<Chunk>>,
    /// The heap size after the last collection: the library and the loaded scripts.
    collected_bytes: Cell<usize>,
    damaged: Cell<bool>,
}

/// How the VM's messages about a nil value begin.
const NIL_ERRORS: [&str; 2] = ["attempt to call a nil value", "attempt to index nil"];

/// A loaded script. In the list of these the most recently used comes last.
struct Chunk {
    script: u64,
    main: Function,
    /// The globals of all its runs, if the script is kept.
    globals: Option<Table>,
}

impl Vm {
    /// Makes a VM. Its scripts can use the standard environment and the functions that `library`
    /// installs.
    ///
    /// # Errors
    /// `Fault` if `library` cannot be installed.
    pub fn new(library: impl FnOnce(&Host<'_>) -> mlua::Result<()>) -> Result<Self> {
        let broken = |error: mlua::Error| {
            Error::new(nacre_object::ErrorKind::Fault, format!("no VM could be made: {error}"))
        };
        let lua = new_lua().map_err(broken)?;
        let meter = Rc::new(Meter::new());
        let random = Rc::new(RefCell::new(Random::seeded(0)));
        let environment = Environment::new(&lua, &meter, &random, library).map_err(broken)?;
        let watcher = meter.clone();
        lua.set_interrupt(move |lua| watcher.step(lua).map(|()| VmState::Continue));
        quantum::install(&lua).map_err(broken)?;
        lua.gc_collect().map_err(broken)?;
        let collected_bytes = Cell::new(lua.used_memory());
        Ok(Self {
            lua,
            environment,
            meter,
            random,
            chunks: RefCell::default(),
            collected_bytes,
            damaged: Cell::new(false),
        })
    }

    /// Begins a run of `script` with new globals. Dropping the run ends it.
    ///
    /// # Errors
    /// `Exhausted` if the memory budget cannot even hold the loaded script.
    pub fn start<'vm>(&'vm mut self, script: &'vm Script, terms: &Terms<'_>) -> Result<Run<'vm>> {
        *self.random.borrow_mut() = Random::seeded(terms.seed);
        self.meter.arm(terms.budget, terms.clock, self.lua.used_memory());
        // From here on, dropping the run restores the VM.
        let run = Run::new(self, script);
        run.open()
    }

    /// Whether the VM ran out of memory and should be replaced.
    pub fn is_damaged(&self) -> bool {
        self.damaged.get()
    }

    /// Runs code of the script under the memory limit of its budget. Outside of this, allocations
    /// have no limit: under a limit, the host would have to make each allocation by a protected
    /// call, which costs time.
    pub(crate) fn limited<R>(&self, body: impl FnOnce() -> R) -> R {
        self.limit_memory(self.meter.heap_limit());
        let result = body();
        self.limit_memory(0);
        result
    }

    fn limit_memory(&self, bytes: usize) {
        // Only a VM without an allocator of its own refuses a limit.
        self.lua.set_memory_limit(bytes).expect("mlua allocates for its VMs");
    }

    /// Returns the loaded chunk of a script and its globals: new globals, unless the script is
    /// kept.
    pub(crate) fn instantiate(&self, script: &Script) -> mlua::Result<(Function, Table)> {
        let (main, kept) = self.chunk(script)?;
        if let Some(globals) = kept {
            return Ok((main, globals));
        }
        let globals = self.environment.fresh()?;
        main.set_environment(globals.clone())?;
        Ok((main, globals))
    }

    /// Keeps these globals for all later runs of the script.
    pub(crate) fn keep(&self, script: &Script, globals: &Table) {
        let mut chunks = self.chunks.borrow_mut();
        if let Some(last) = chunks.last_mut()
            && last.script == script.id()
            && last.globals.is_none()
        {
            last.globals = Some(globals.clone());
        }
    }

    fn chunk(&self, script: &Script) -> mlua::Result<(Function, Option<Table>)> {
        let mut chunks = self.chunks.borrow_mut();
        if let Some(last) = chunks.last()
            && last.script == script.id()
        {
            return Ok((last.main.clone(), last.globals.clone()));
        }
        if let Some(at) = chunks.iter().position(|chunk| chunk.script == script.id()) {
            chunks[at..].rotate_left(1);
        } else {
            let chunk = Chunk { script: script.id(), main: self.load(script)?, globals: None };
            if chunks.len() == MAX_CACHED_CHUNKS {
                chunks.remove(0);
            }
            chunks.push(chunk);
        }
        let last = &chunks[chunks.len() - 1];
        Ok((last.main.clone(), last.globals.clone()))
    }

    fn load(&self, script: &Script) -> mlua::Result<Function> {
        self.lua
            .load(script.bytecode())
            .set_name(format!("={}", script.name()))
            .set_mode(ChunkMode::Binary)
            .into_function()
    }

    pub(crate) fn lua(&self) -> &Lua {
        &self.lua
    }

    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Returns why a run ended. Marks the VM as damaged if it ran out of memory.
    pub(crate) fn explain(&self, error: &mlua::Error, script: &Script) -> Error {
        if let mlua::Error::MemoryError(_) = error {
            self.meter.exceed(Limit::Memory);
        }
        self.verdict(script).err().unwrap_or_else(|| self.naming(explain(error, script), script))
    }

    /// If a script called or indexed `nil`, adds to the error which undefined name on that line is
    /// the likely cause. The VM's own message has no name.
    fn naming(&self, error: Error, script: &Script) -> Error {
        let is_of_nil = NIL_ERRORS.iter().any(|text| error.message().starts_with(text));
        let (true, Some(site)) = (is_of_nil, error.fault()) else { return error };
        let on_line = |name: &&FreeName| Some(name.line) == site.line;
        match script.free_names().iter().filter(on_line).find(|name| self.lacks(name)) {
            Some(name) => {
                let text =
                    format!("`{}` is not available in programs: {}", name.path(), error.message());
                Error::fault_at(site.clone(), text)
            }
            None => error,
        }
    }

    /// Whether the environment, with what the host added, lacks a name.
    fn lacks(&self, name: &FreeName) -> bool {
        // The look-up falls back to the base, which the sandbox put behind the globals.
        let Ok(value) = self.lua.globals().get::<Value>(&*name.global) else { return false };
        match (value, &name.field) {
            (Value::Nil, _) => true,
            (Value::Table(library), Some(field)) => {
                library.raw_get::<Value>(&**field).is_ok_and(|value| value.is_nil())
            }
            _ => false,
        }
    }

    /// Fails if the run exceeded its budget, even if the script hid the error.
    pub(crate) fn verdict(&self, script: &Script) -> Result<()> {
        let Some(exceeded) = self.meter.exceeded() else { return Ok(()) };
        if exceeded.limit == Limit::Memory {
            self.damaged.set(true);
        }
        Err(exceeded.error.with_fault(site_of(script, &exceeded.traceback)))
    }

    /// Restores the VM after a run: removes limits, and collects garbage if there is too much.
    pub(crate) fn settle(&self) {
        self.meter.disarm();
        self.limit_memory(0);
        let garbage = self.lua.used_memory().saturating_sub(self.collected_bytes.get());
        if garbage > MAX_RETAINED_BYTES || self.meter.host_bytes() > MAX_RETAINED_BYTES {
            self.damaged.set(self.damaged.get() || self.lua.gc_collect().is_err());
            self.collected_bytes.set(self.lua.used_memory());
        }
    }
}
