//! The classes of a process that keeps objects: the runtime, the layer before the engine, and the hooks.

mod catch_up_layer;
mod hooks;
mod service;

pub(crate) use catch_up_layer::CatchUpLayer;
pub use service::{ClassService, ProgramFailures, Served};
