//! File types: programs that define the state and methods of resources.
//!
//! A file type is a Luau chunk. `init()` returns the state of a new resource. `filetype.read(name,
//! method)` and `filetype.write(name, method)` add methods. A method is called as `method(state,
//! input, call)` and returns its output. A method that writes changes `state` in place. Changes
//! that a reading method makes to `state` are dropped. A method that fails changes nothing.
//!
//! A file type is *journaled* or *recovered*:
//!
//! - The authority stores each change of a journaled type before it answers.
//! - A recovered type gives `filetype.recovered` a function that repairs the state after a
//!   takeover. The authority answers before it stores a change, unless the method calls
//!   `filetype.store()`.
//!
//! `filetype.capability(mode, program)` lets clients hold capabilities: see [`Locking`].
//!
//! States, inputs and outputs are JSON.

mod file_type;
mod hook;
mod interface;
mod library;
mod locking;
mod native;
#[allow(unsafe_code, reason = "a VM moves between threads as a whole; see the SAFETY comment")]
mod resident;

pub use file_type::{Access, FileType, MethodCall, Outcome, Survival};
pub use hook::{FileTypeHook, LiveFileTypes};
pub use locking::Locking;
pub use native::native_type;
pub(crate) use resident::Resident;
