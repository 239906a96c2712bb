//! The VM of each thread that calls methods.

use std::cell::RefCell;
use std::rc::Rc;

use nacre_object::Result;
use nacre_script::Vm;

use crate::buffer_list::{self, BufferLists};
use crate::calling::Calling;
use crate::objclass;

/// A VM with the class API, and the state its host functions share.
pub(crate) struct ClassVm {
    pub vm: Vm,
    pub calling: Rc<Calling>,
    pub lists: BufferLists,
}

impl ClassVm {
    fn new() -> Result<Self> {
        let calling = Rc::new(Calling::default());
        let mut lists = None;
        let vm = Vm::new(|host| {
            lists = Some(BufferLists::new(host.memory.clone()));
            buffer_list::install(host)?;
            objclass::install(host, &calling)
        })?;
        let lists = lists.expect("the library was installed");
        Ok(Self { vm, calling, lists })
    }
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
    vm.calling.end();
    if !vm.vm.is_damaged() {
        IDLE.set(Some(vm));
    }
    result
}
