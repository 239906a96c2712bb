//! Classes on a process that stores objects: the class runtime, the layer above the engine, and the
//! hooks that load new versions of programs.

mod catch_up_layer;
mod hooks;
mod service;

pub(crate) use catch_up_layer::CatchUpLayer;
pub use service::{ClassService, ProgramFailures, Served};
