//! The VM of each thread that calls methods.

use std::cell::RefCell;

use mlua::chunk::Compiler;
use mlua::{Function, Lua, Table};
use nacre_object::{Error, Result};
use nacre_script::{Vm, raise};

use crate::buffer_list::{self, BufferLists};
use crate::calling;
use crate::errno::EOPNOTSUPP;
use crate::objclass;

/// A VM with the class API.
pub(crate) struct ClassVm {
    pub vm: Vm,
    pub lists: BufferLists,
    pub dispatch: Dispatch,
}

/// The functions of `dispatch.luau`.
pub(crate) struct Dispatch {
    /// `(chunk, globals, handler, input, output)` to the last value the handler returned.
    pub call: Function,
    /// The same for a script that is kept.
    pub call_kept: Function,
    /// `(chunk, globals, handler, next_request)`, for such a script: the requests of a batch.
    pub call_batch: Function,
    /// `(chunk, globals)` to `{name = is_read_only}` and the number of registered functions.
    pub inspect: Function,
}

impl ClassVm {
    fn new() -> Result<Self> {
        let mut installed = None;
        let vm = Vm::new(|host| {
            buffer_list::install(host)?;
            let dispatch = load_dispatch(host.lua)?;
            objclass::install(host, &dispatch.raw_get("register")?)?;
            let dispatch = Dispatch {
                call: dispatch.raw_get("call")?,
                call_kept: dispatch.raw_get("call_kept")?,
                call_batch: dispatch.raw_get("call_batch")?,
                inspect: dispatch.raw_get("inspect")?,
            };
            installed = Some((BufferLists::new(host.memory.clone()), dispatch));
            Ok(())
        })?;
        let (lists, dispatch) = installed.expect("a VM is made with its library installed");
        Ok(Self { vm, lists, dispatch })
    }
}

fn load_dispatch(lua: &Lua) -> mlua::Result<Table> {
    let host = lua.create_table()?;
    host.raw_set("restrict", lua.create_function(|_, ()| calling::restrict())?)?;
    host.raw_set("missing", lua.create_function(|_, handler| missing(handler))?)?;
    // Without line numbers, so that positions in errors are the script's.
    let compiler = Compiler::new().set_optimization_level(1).set_debug_level(0);
    let source = include_str!("dispatch.luau");
    lua.load(source).set_name("=dispatch").set_compiler(compiler).call(host)
}

fn missing(handler: String) -> mlua::Result<()> {
    let text = format!("{} has no method {handler:?}", calling::program_name()?);
    Err(raise(Error::from_status(-EOPNOTSUPP, text)))
}

thread_local! {
    static IDLE: RefCell<Option<ClassVm>> = const { RefCell::new(None) };
}

/// Runs `body` with this thread's VM, which is made when first needed, and made anew after one ran
/// out of memory or a panic went through it.
pub(crate) fn with_vm<R>(body: impl FnOnce(&mut ClassVm) -> Result<R>) -> Result<R> {
    // Taken out while it runs, so a call within a call gets one of its own.
    let mut vm = match IDLE.take() {
        Some(vm) => vm,
        None => ClassVm::new()?,
    };
    let result = body(&mut vm);
    if !vm.vm.is_damaged() {
        IDLE.set(Some(vm));
    }
    result
}
