//! The switch: it decides where each IO goes, holds IO while rules change, and agrees with other
//! switches.
//!
//! A switch is a state machine: it takes [`Event`]s and the time, and returns [`Command`]s. The
//! runtime moves the bytes.
//!
//! # Protocol
//!
//! 1. An IO arrives. The switch plans it by the rules of one term, which hold for the IO from
//!    beginning to end.
//! 2. The switch sends the pieces. Each change carries a [`Stamp`]. An endpoint stores the stamp
//!    with the bytes, and refuses a change that is older than the stored one (`Outcome::Outrun`).
//!    So a late message does no harm.
//! 3. When all pieces are done, the switch makes reads follow writes where a rule says so. Only
//!    then does it answer the IO.
//! 4. If a rule names a program, the IO waits until the program has decided. If the rules change
//!    meanwhile, the switch asks the program of the new rules instead.
//! 5. The controller changes rules in steps: quiesce, drain, install, resume (sRoute paper, section
//!    3.5).
//!
//! # Invariants
//!
//! - After its start a switch serves nothing until the controller has given it its rules.
//! - If two IOs touch the same bytes, one of them changes the bytes, and they go to different
//!   destinations, the switch keeps their order.
//! - An IO never goes to a destination that its program has not declared.
//! - After a read has gone to the new place of bytes, no later read goes to their old place.

mod agreement;
mod core;
mod in_flight;
mod message;
mod outgoing;
mod programs;
mod stamp;
mod waiting;

pub use core::Switch;
pub use message::{Command, Event, IoId, Outcome, RefusedIo};
pub use message::{Order, OrderAnswer, PeerAnswer, PeerQuestion, Placed, SwitchRules};
pub use message::{ProgramAsk, ProgramDecision, RuleChange};
pub use stamp::{Stamp, Term};
