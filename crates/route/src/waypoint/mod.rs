//! Waypoints: stages that IO passes on its way, and from which it returns to the switch (sRoute
//! paper, section 2).
//!
//! A rule `… -> waypoint NAME` sends IO to the stage of the program `waypoint/NAME` on the home of
//! the object. The stage returns the IO with the source `layer:NAME`, and other rules decide where
//! it goes. A program does one of two things, or both:
//!
//! 1. It *re-encodes* the bytes: those of a write before they are stored, and stored ones before a
//!    read returns them. [`code`] decides what that means for each op of a request. A [`Mark`] at
//!    the object says which code has encoded its bytes.
//! 2. It *holds* IO: it gives each IO a cost and a priority, and a [`HoldingQueue`] releases IO at
//!    a constant rate.
//!
//! # Invariants
//!
//! - Bytes that one code has encoded are decoded by no other code.
//! - An object has either only encoded bytes or none, and no gaps if they are encoded. An object
//!   that had bytes before it met the stage keeps them as they are.

mod coding;
mod mark;
mod queue;

#[cfg(feature = "programs")]
mod hook;
#[cfg(feature = "programs")]
mod interface;
#[cfg(feature = "programs")]
mod rehearsal;
#[cfg(feature = "programs")]
mod waypoint_program;

pub use coding::{Answered, Coded, CodedOp, Content, Way, code};
#[cfg(feature = "programs")]
pub use hook::{LiveWaypoints, WaypointHook};
pub use mark::{MARK_ATTRIBUTE, Mark};
pub use queue::{HoldingQueue, Limit};
#[cfg(feature = "programs")]
pub use waypoint_program::{Price, WaypointProgram};

/// What a waypoint does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WaypointKind {
    /// It re-encodes bytes.
    pub encodes: bool,
    /// It holds IO.
    pub holds: bool,
}
