//! Route programs: the *delegates* of the sRoute paper (section 3.4) in Luau.
//!
//! A rule names a program as its destination. The program declares its possible destinations as
//! data. A node asks the program where the bytes of each IO go, and refuses an undeclared
//! destination. The program sees the header of the IO and never its data. It may insert and delete
//! rules; it keeps no other state.
//!
//! If a program fails, its IO fails too. Sending the bytes to some other place instead would be
//! unsafe, because a later read could miss them.

mod changes;
mod hook;
mod interface;
mod route_program;

pub use hook::{LiveRoutes, RouteHook};
pub use route_program::{Decision, RouteProgram};
