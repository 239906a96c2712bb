//! Hooks: the decisions that programs make.
//!
//! Each kind of program has one [`Hook`], in a folder of its own. A process lists the hooks that it has in [`Hooks`].
//! A client checks programs with them before it stores anything. A node also makes programs live with them.
//!
//! **Invariant:** a program of a kind without a hook is never stored and never active.

mod class;
mod hook;
mod list;
mod live_program;
mod map;
mod source_error;

pub use class::ClassHook;
pub use hook::Hook;
pub use list::Hooks;
pub use live_program::LiveProgram;
pub use map::MapHook;
pub use source_error::SourceError;

pub(crate) use map::{Policy, Proposal, Verdict};
