//! Hooks: the decisions that nacre leaves to programs.
//!
//! Each kind of program has one [`Hook`], in a folder of its own. A process lists its hooks in
//! [`Hooks`]. Clients use hooks to check programs before they store them. Nodes also use them to
//! make programs live.
//!
//! **Invariant:** a program of a kind without a hook is never stored and never active.

#[cfg(feature = "programs")]
mod class;
mod compiled_hook;
mod hook;
mod list;
mod live_program;
#[cfg(feature = "programs")]
mod map;
mod source_error;

#[cfg(feature = "programs")]
pub use class::ClassHook;
pub use compiled_hook::{CompiledHook, CompiledProgram, LivePrograms};
pub use hook::Hook;
pub use list::Hooks;
pub use live_program::LiveProgram;
#[cfg(feature = "programs")]
pub use map::MapHook;
pub use source_error::SourceError;

#[cfg(feature = "programs")]
pub(crate) use map::run_policy;
