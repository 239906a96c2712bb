//! File types: programs that give resources their state and methods.
//!
//! A file type is a Luau chunk. `init()` returns the state of a new resource. `filetype.read(name, method)` and
//! `filetype.write(name, method)` add methods; each is called as `method(state, input, call)` and returns its output. A
//! method that writes changes `state` in place. What a method that reads does to it is dropped. A method that fails
//! changes nothing.
//!
//! The state is *journaled*, so that each change is stored before it is answered, or *recovered* by a function given to
//! `filetype.recovered`; then `filetype.store()` has one change stored before it is answered.
//!
//! States, inputs and outputs are JSON.

mod file_type;
mod hook;
mod interface;
mod library;
mod live;

pub use file_type::{Access, FileType, MethodCall, Outcome, Survival};
pub use hook::FileTypeHook;
pub use live::LiveFileTypes;
