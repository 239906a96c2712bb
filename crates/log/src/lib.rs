//! The shared log (CORFU): views, striping, the sequencer, recovery and the client.

mod codec;
pub mod core;
pub mod limits;
mod name;
mod storage;
#[cfg(test)]
mod testing;
pub mod view;

pub use name::LogName;
pub use storage::{NATIVE_CLASS, PROGRAM_CLASS, log_class};
