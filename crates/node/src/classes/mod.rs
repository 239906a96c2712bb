//! The classes of a process that keeps objects: the class runtime, the layer before the engine, and
//! the hooks that make programs live.

mod catch_up_layer;
mod hooks;
mod service;

pub(crate) use catch_up_layer::CatchUpLayer;
pub use service::{ClassService, ProgramFailures, Served};
