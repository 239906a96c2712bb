//! How far a script may go before its meter looks at it.
//!
//! The VM calls at every step: a call, a loop iteration, a step of the pattern matcher. A look takes
//! longer than most steps, as a clock is read and the VM is entered by its safe side. So what the VM
//! calls is [`count`], which counts the steps a meter has given the thread leave for and watches the
//! heap; when either is used up it hands on to the look.
//!
//! **Invariant:** a thread without leave looks at every step. One run at a time has leave; a run
//! begun within another puts the other's aside.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::OnceLock;

use mlua::{Lua, ffi};

/// What the VM calls: the state, and what the collector is doing or a negative number.
type Interrupt = unsafe extern "C-unwind" fn(*mut ffi::lua_State, c_int);

/// mlua's interrupt, which is the same for all VMs: it calls what a VM was given.
static LOOK: OnceLock<Interrupt> = OnceLock::new();

thread_local! {
    static LEAVE: Cell<Leave> = const { Cell::new(Leave::NONE) };
}

/// What may happen unlooked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leave {
    /// Steps.
    pub steps: u32,
    /// KiB that the heap may grow to.
    pub heap_kib: c_int,
}

impl Leave {
    /// No leave.
    pub const NONE: Self = Self { steps: 0, heap_kib: 0 };

    /// Gives it to the run of this thread; answers what is left of the leave before.
    pub fn give(self) -> Self {
        LEAVE.replace(self)
    }
}

/// Has the VM count before it looks. It has an interrupt already: what looks.
///
/// # Errors
/// None but the VM's being out of memory.
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

/// One step. Nothing here is dropped, as an interrupt raises errors by leaving over its caller's head.
unsafe extern "C-unwind" fn count(state: *mut ffi::lua_State, collecting: c_int) {
    if collecting >= 0 {
        return;
    }
    let leave = LEAVE.get();
    // SAFETY: asking for the size of the heap allocates nothing and raises nothing.
    if leave.steps > 0 && unsafe { ffi::lua_gc(state, ffi::LUA_GCCOUNT, 0) } < leave.heap_kib {
        LEAVE.set(Leave { steps: leave.steps - 1, ..leave });
    } else if let Some(look) = LOOK.get() {
        // SAFETY: it is called as the VM would have.
        unsafe { look(state, collecting) }
    }
}
