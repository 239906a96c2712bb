//! Runs methods next to the data.
//!
//! [`ClassRuntime`] is the [`nacre_object::ClassHost`] of engines. There are three kinds of class:
//! a [`ClassProgram`] in Luau or Brados that was made live, a [`NativeClass`] in Rust, and the
//! built-in class `lua`, whose methods run a script that the call contains. All three see their
//! object only through `ObjectView`, and return a status, an output or an error in the same way.
//!
//! Luau programs find the API of Ceph's `cls_lua`: the tables `objclass` and `bufferlist`, and a
//! `pcall` that returns a storage error as `false, negative_errno, message`. `objclass.rs`
//! documents that API line by line. Only `extensions.rs` adds to it.
//!
//! **Invariant:** one call passes nothing to another except through the object. The chunk of a Luau
//! program is compiled once, but runs anew for each call with globals of its own. The chunk of a
//! Brados program runs only once in each VM, because its compiler emits nothing that changes
//! afterwards.

mod allowance;
mod arguments;
mod batch_run;
mod buffer_list;
mod call_counts;
mod calling;
mod calls_seen;
mod check;
mod class_vm;
mod counting;
mod errno;
mod eval_cache;
mod extensions;
mod fault_sink;
#[cfg(test)]
mod fuzz_tests;
mod int_keys;
mod interface;
mod invocation;
mod language;
mod live;
mod objclass;
mod program;
mod requests;
mod runtime;

pub use call_counts::UnderWay;
pub use calls_seen::{CallsSeen, ColumnSeen, MethodSeen};
pub use check::{CheckError, CheckedClass, check_program, check_suspicions};
pub use fault_sink::{FaultSink, NoFaultSink, ProgramFault, ProgramLog};
pub use interface::CLASS_INTERFACE;
pub use live::{CalledClass, LiveClass};
pub use program::ClassProgram;
pub use runtime::ClassRuntime;
