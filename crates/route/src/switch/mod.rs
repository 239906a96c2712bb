//! The switch: a state machine that decides where each IO goes, holds IO while rules change, and
//! agrees with other switches on where bytes are.
//!
//! It takes [`Event`]s and the time, and returns [`Command`]s. The runtime of a node carries the
//! commands out and moves the bytes.
//!
//! # Protocol
//!
//! 1. An IO arrives. The switch plans it by the rules of one [`Term`] (one update of the rules),
//!    which apply to the IO from beginning to end.
//! 2. The switch sends the pieces. Each change carries a [`Stamp`]. An endpoint stores the stamp
//!    with the bytes, and refuses a change that is older than the stored one (`Outcome::Outrun`).
//!    So a late message does no harm.
//! 3. When all pieces are done, the switch notes where reads must go, if a rule makes reads follow
//!    writes. Only then does it answer the IO.
//! 4. If a rule names a program, the IO waits until the program has decided. If the rules change
//!    meanwhile, the switch asks the program of the new rules instead.
//! 5. If a rule sends an IO to the controller, the IO waits until the switch has a rule that says
//!    where it goes.
//! 6. If a rule sends an IO to a waypoint, the IO waits until the waypoint has admitted it. Then the
//!    switch sends it there, and the waypoint returns it as new IO from its layer, which belongs to
//!    the first one.
//! 7. The controller changes rules in steps: quiesce, drain, install, resume (sRoute paper, section
//!    3.5).
//!
//! # Invariants
//!
//! - After its start, a switch serves nothing until the controller has sent its rules.
//! - Two IOs keep their order if they touch the same bytes, one of them changes these bytes, and
//!   they go to different destinations.
//! - An IO never goes to a destination that its program has not declared.
//! - Once a read of some bytes has gone to their new location, no later read goes to the old one.

mod agreement;
mod controller_asks;
mod core;
mod in_flight;
mod message;
mod outgoing;
mod programs;
mod stamp;
mod waiting;
mod waypoints;

pub use core::Switch;
pub use message::{Command, ControllerAsk, Event, IoId, Outcome, RefusedIo};
pub use message::{Order, OrderAnswer, PeerAnswer, PeerQuestion, Placed, SwitchRules};
pub use message::{ProgramAsk, ProgramDecision, RuleChange, WaypointAsk};
pub use stamp::{Stamp, Term};
