//! The quantum of a script: how many steps it may make before the [meter](crate::meter) checks its
//! budget.
//!
//! A step is a call, a loop iteration or a step of the pattern matcher. A check takes longer than
//! most steps, because it reads a clock and enters the VM through mlua's safe interface. So at each
//! step the VM calls [`count`] instead. It counts the steps down, compares the heap with its limit,
//! and calls the meter only if the steps or the heap are used up.
//!
//! **Invariant:** on a thread without a quantum, the meter checks at every step. Only one run of a
//! thread has a quantum. A run that begins within another run puts the outer run's quantum aside
//! until it ends.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::OnceLock;

use mlua::{Lua, ffi};

/// The type of interrupts. The second argument is negative unless the collector is running.
type Interrupt = unsafe extern "C-unwind" fn(*mut ffi::lua_State, c_int);

/// mlua's interrupt, which is the same function for all VMs: it calls the VM's own handler.
static LOOK: OnceLock<Interrupt> = OnceLock::new();

thread_local! {
    static QUANTUM: Cell<Quantum> = const { Cell::new(Quantum::NONE) };
}

/// The steps and the heap size up to which the meter need not check.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quantum {
    /// Steps.
    pub steps: u32,
    /// KiB that the heap may grow to.
    pub heap_kib: c_int,
}

impl Quantum {
    /// No quantum.
    pub const NONE: Self = Self { steps: 0, heap_kib: 0 };

    /// Gives the quantum to the run of this thread. Returns what was left of the previous quantum.
    pub fn give(self) -> Self {
        QUANTUM.replace(self)
    }
}

/// Makes [`count`] the VM's interrupt, that is, the function that the VM calls at each step. The
/// interrupt that was installed before is the meter's check; [`count`] calls it when needed.
///
/// # Errors
/// Only if the VM is out of memory.
pub(crate) fn install(lua: &Lua) -> mlua::Result<()> {
    // SAFETY: nothing is pushed, and callbacks live as long as their VM.
    unsafe {
        lua.exec_raw::<()>((), |state| {
            let callbacks = ffi::lua_callbacks(state);
            if let Some(look) = (*callbacks).interrupt {
                LOOK.get_or_init(|| look);
                (*callbacks).interrupt = Some(count);
            }
        })
    }
}

/// Counts one step. Nothing here may need to be dropped, because an interrupt raises errors by
/// unwinding past this function.
unsafe extern "C-unwind" fn count(state: *mut ffi::lua_State, collecting: c_int) {
    if collecting >= 0 {
        return;
    }
    let quantum = QUANTUM.get();
    // SAFETY: asking for the size of the heap allocates nothing and raises no error.
    if quantum.steps > 0 && unsafe { ffi::lua_gc(state, ffi::LUA_GCCOUNT, 0) } < quantum.heap_kib {
        QUANTUM.set(Quantum { steps: quantum.steps - 1, ..quantum });
    } else if let Some(look) = LOOK.get() {
        // SAFETY: the arguments are those with which the VM called this function.
        unsafe { look(state, collecting) }
    }
}
