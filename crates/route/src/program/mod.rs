//! Route programs: the *delegates* of the sRoute paper (section 3.4) in Luau.
//!
//! A rule names a program as its destination. The program declares the destinations that there are, as data. A node
//! asks it where the bytes of each IO go, and refuses what it has not declared. The program sees the header of the IO and
//! never its data. It may insert and delete rules; it keeps no other state.
//!
//! A program that fails fails its own IO: bytes that went to another place than it says could be missed by whoever
//! relies on it.

mod changes;
mod hook;
mod interface;
mod route_program;

pub use hook::{LiveRoutes, RouteHook};
pub use route_program::{Decision, RouteProgram};
