//! The sandboxed Luau VM in which the programs of every hook run.
//!
//! A [`Script`] is compiled source. A [`Vm`] belongs to one thread and executes one [`Run`] of a
//! script at a time:
//!
//! 1. [`Vm::start`] gives the run an empty table of globals and starts its [`Budget`];
//! 2. [`Run::load`] runs the chunk, which defines functions and returns values;
//! 3. [`Run::call`] calls one of these functions; results are plain [`Value`]s or VM handles;
//! 4. dropping the run ends the budget and drops the run's globals.
//!
//! [`Vm::new`] takes a library of host functions and installs it once for each VM. A host function
//! fails with [`raise`], which a script's `pcall` returns as `false, negative_errno, message`.
//!
//! **Invariant:** later runs see no effect of a script. Each run has new globals and new variables
//! of the chunk; everything that runs share is read-only.
//!
//! **Invariant:** a script reaches no file, clock, randomness or other script except through its
//! host.
//!
//! **Invariant:** once a budget is exceeded, the run ends with `Exhausted`. No `pcall`, coroutine
//! or error handler of the script can turn that into success.

mod compile;
mod environment;
mod fault;
#[allow(unsafe_code, reason = "reads the variables of functions; see the SAFETY comments")]
mod frozen;
mod guards;
mod host;
mod interface_check;
mod json;
mod limits;
mod meter;
mod names;
mod program_version;
mod program_vm;
#[allow(unsafe_code, reason = "what the VM calls at every step; see the SAFETY comments")]
mod quantum;
#[allow(unsafe_code, reason = "what the VM calls for each record; see the SAFETY comments")]
mod quick;
mod run;
mod value;
mod vm;

pub use compile::{CompileError, Script};
pub use fault::{raise, raised};
pub use frozen::freeze;
pub use host::Host;
pub use json::{JsonBounds, json_to_lua};
pub use limits::{MAX_CACHED_CHUNKS, MAX_VALUE_DEPTH, MAX_VALUE_ENTRIES};
pub use meter::{MemoryAccount, Pulse};
pub use names::{ForeignConstruct, FreeName, foreign_constructs, free_names};
pub use program_version::ProgramVersion;
pub use program_vm::{Library, LoadedVm, ProgramVm};
pub use quick::{Numbers, QuickAnswer, QuickArguments, ShortText};
pub use run::{Run, Terms};
pub use value::{Value, type_of};
pub use vm::Vm;
