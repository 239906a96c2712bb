//! `ProgramVm`: the VM in which one thread runs the programs of one hook.

use std::cell::RefCell;
use std::rc::Rc;

use nacre_object::{Error, Result};

use crate::{Host, Script, Vm};
use nacre_program::Digest;

/// How many compiled programs a thread keeps. If there are more, the thread drops the least
/// recently used one. This cache is for hooks that compile a program when they run it, not when it
/// becomes live.
const MAX_CACHED_SCRIPTS: usize = 16;

/// The library that a hook installs into the VM of its programs.
pub trait Library: Sized {
    /// Installs the library into a new VM.
    ///
    /// # Errors
    /// Errors of the VM.
    fn install(host: &Host<'_>) -> mlua::Result<Self>;
}

/// The library of a hook whose programs use only the standard environment.
impl Library for () {
    fn install(_: &Host<'_>) -> mlua::Result<Self> {
        Ok(())
    }
}

/// A thread's VM for the programs of one hook, declared by the hook as a `thread_local!`.
///
/// **Invariant:** after a VM ran out of memory, or a panic passed through it, it is never used
/// again.
pub struct ProgramVm<L>(RefCell<Option<LoadedVm<L>>>);

/// A VM with the library of its hook.
pub struct LoadedVm<L> {
    /// The VM.
    pub vm: Vm,
    /// What the hook keeps.
    pub library: L,
    /// The most recently used last.
    scripts: Vec<Rc<Script>>,
}

impl<L: Library> ProgramVm<L> {
    /// Starts without a VM. The VM is made when it is first needed.
    pub const fn new() -> Self {
        Self(RefCell::new(None))
    }

    /// Runs `body` with the thread's VM. A nested call gets a VM of its own.
    ///
    /// # Errors
    /// Errors of `body`; `Fault` if the library cannot be installed.
    pub fn with<R>(&self, body: impl FnOnce(&mut LoadedVm<L>) -> Result<R>) -> Result<R> {
        let mut loaded = match self.0.take() {
            Some(loaded) => loaded,
            None => LoadedVm::new()?,
        };
        let result = body(&mut loaded);
        if !loaded.vm.is_damaged() {
            *self.0.borrow_mut() = Some(loaded);
        }
        result
    }
}

impl<L: Library> Default for ProgramVm<L> {
    fn default() -> Self {
        Self::new()
    }
}

impl<L: Library> LoadedVm<L> {
    fn new() -> Result<Self> {
        let mut library = None;
        let vm = Vm::new(|host| {
            library = Some(L::install(host)?);
            Ok(())
        })?;
        let library = library.ok_or_else(|| Error::corrupt("a VM was made without its library"))?;
        Ok(Self { vm, library, scripts: Vec::new() })
    }

    /// Returns the compiled form of a source, from the cache if it is there.
    ///
    /// # Errors
    /// `Fault` with program, version and line if the source does not compile.
    pub fn script(&mut self, name: &str, version: u64, source: &[u8]) -> Result<Rc<Script>> {
        let digest = Digest::of(source);
        let is_same = |script: &Rc<Script>| {
            script.digest() == digest && script.version() == version && script.name() == name
        };
        let script = match self.scripts.iter().position(is_same) {
            Some(at) => self.scripts.remove(at),
            None => Rc::new(
                Script::compile(name, version, source)
                    .map_err(|error| error.into_fault(name, version))?,
            ),
        };
        if self.scripts.len() >= MAX_CACHED_SCRIPTS {
            self.scripts.remove(0);
        }
        self.scripts.push(Rc::clone(&script));
        Ok(script)
    }
}
