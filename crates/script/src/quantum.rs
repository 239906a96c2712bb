//! The quantum of a script: how many steps it may make before the [meter](crate::meter) checks its
//! budget.
//!
//! A step is a call, a loop iteration or a step of the pattern matcher. A check takes longer than
//! most steps, because it reads a clock and enters the VM through mlua's safe interface. So at each
//! step the VM calls [`count`] instead. It counts the steps down, compares the heap with its limit,
//! and calls the meter only if the steps or the heap are used up.
//!
//! **Invariant:** while a thread has no quantum, the meter checks at every step. A thread has at
//! most one quantum, which belongs to its innermost run. A run that begins within another run saves
//! the outer run's quantum and restores it at the end.

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

/// Makes [`count`] the VM's interrupt, which is the function that the VM calls at each step. The
/// interrupt so far is the meter's check; [`count`] calls it when a check is due.
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

/// Counts one step. The meter's check raises errors by unwinding past this function, so the
/// function must not hold a value that needs to be dropped.
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
