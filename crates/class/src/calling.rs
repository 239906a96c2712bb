//! The call under way on this thread: its object, and what its script has registered.
//!
//! Host functions are made once a VM and outlive any call, while the object is lent for one call
//! only. So it is put into a scoped thread-local for as long as the call lasts: a host function that
//! runs outside a call finds none and raises.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::sync::Arc;

use mlua::Function;
use nacre_object::{CallContext, EntityName, Error, ObjectView, ReadOnlyView, Result};
use nacre_script::raise;

use crate::fault_sink::{FaultSink, ProgramLog};
use crate::native::MethodAccess;

scoped_tls_hkt::scoped_thread_local!(static mut OBJECT: for<'a> &'a mut (dyn ObjectView + 'a));

/// Lends `object` to host functions while `body` runs.
pub(crate) fn lend<R>(object: &mut dyn ObjectView, body: impl FnOnce() -> R) -> R {
    OBJECT.set(object, body)
}

/// Runs `body` with the lent object made read-only if `access` says so.
pub(crate) fn restrict<R>(access: MethodAccess, body: impl FnOnce() -> R) -> R {
    match access {
        MethodAccess::ReadWrite => body(),
        MethodAccess::ReadOnly => OBJECT.with(|object| {
            let mut read_only = ReadOnlyView::new(object);
            lend(&mut read_only, body)
        }),
    }
}

/// Does something with the lent object; its errors are raised in the script.
pub(crate) fn object<R>(body: impl FnOnce(&mut dyn ObjectView) -> Result<R>) -> mlua::Result<R> {
    if !OBJECT.is_set() {
        let text = "there is no object while a program is checked";
        return Err(raise(Error::unsupported(text).hint("call objclass functions in methods")));
    }
    OBJECT.with(|object| body(object)).map_err(raise)
}

/// What host functions share besides the object. One for each VM, set anew for each call.
#[derive(Default)]
pub(crate) struct Calling {
    registered: RefCell<Vec<Registered>>,
    program: RefCell<(String, u64)>,
    source: RefCell<Option<EntityName>>,
    now_micros: Cell<u64>,
    sink: RefCell<Option<Arc<dyn FaultSink>>>,
}

struct Registered {
    /// Identifies the function; it cannot be reused while `keep` holds it.
    identity: *const c_void,
    access: MethodAccess,
    #[allow(dead_code, reason = "held so that the identity stays unique")]
    keep: Function,
}

impl Calling {
    /// Forgets the previous call.
    pub fn begin(
        &self,
        program: (&str, u64),
        context: Option<&CallContext>,
        sink: &Arc<dyn FaultSink>,
    ) {
        self.registered.borrow_mut().clear();
        let (name, version) = program;
        let mut own = self.program.borrow_mut();
        own.0.clear();
        own.0.push_str(name);
        own.1 = version;
        self.now_micros.set(context.map_or(0, |context| context.now_micros));
        *self.source.borrow_mut() = context.map(|context| context.source.clone());
        *self.sink.borrow_mut() = Some(sink.clone());
    }

    /// Lets go of everything that belongs to the VM, before it goes or serves another.
    pub fn end(&self) {
        self.registered.borrow_mut().clear();
        *self.sink.borrow_mut() = None;
    }

    /// Takes a function as a method; answers whether it was new.
    pub fn register(&self, function: Function, access: MethodAccess) -> bool {
        let identity = function.to_pointer();
        let mut registered = self.registered.borrow_mut();
        let new = registered.iter().all(|known| known.identity != identity);
        if new {
            registered.push(Registered { identity, access, keep: function });
        }
        new
    }

    /// The access of a function, if it was registered.
    pub fn access_of(&self, function: &Function) -> Option<MethodAccess> {
        let identity = function.to_pointer();
        let registered = self.registered.borrow();
        registered.iter().find(|known| known.identity == identity).map(|known| known.access)
    }

    pub fn registered_count(&self) -> usize {
        self.registered.borrow().len()
    }

    /// The time of the call, in microseconds since 1970.
    pub fn now_micros(&self) -> u64 {
        self.now_micros.get()
    }

    /// Who called; empty outside a call.
    pub fn source(&self) -> String {
        self.source.borrow().as_ref().map(EntityName::to_string).unwrap_or_default()
    }

    pub fn log(&self, level: i64, text: &str) {
        let program = self.program.borrow();
        if let Some(sink) = &*self.sink.borrow() {
            sink.log(&ProgramLog { program: &program.0, version: program.1, level, text });
        }
    }
}
