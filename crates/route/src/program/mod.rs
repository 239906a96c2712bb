//! Route programs in Luau: they decide where the bytes of an IO go (the *delegates* of the sRoute
//! paper, section 3.4).
//!
//! A rule names a program as its destination. The program declares a list of possible destinations.
//! A node asks the program where the bytes of each IO go, and refuses an undeclared destination.
//! The program sees the header of the IO and never its data. It may insert and delete rules; it
//! keeps no other state.
//!
//! If a program fails, its IO fails too. Sending the bytes anywhere else would be unsafe, because a
//! later read could miss them.

mod changes;
mod hook;
mod interface;
mod route_program;

pub(crate) use hook::missing_names;
pub use hook::{LiveRoutes, RouteHook};
pub use route_program::{Decision, RouteProgram};
