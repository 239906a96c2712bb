//! The switch: it decides where each IO goes, holds IO while rules change, and agrees with other switches.
//!
//! A switch is a state machine: [`Event`]s and the time in, [`Command`]s out. The runtime moves the bytes.
//!
//! # Protocol
//!
//! 1. An IO arrives, and is planned by the rules of one term from beginning to end.
//! 2. Its pieces go out. Each change carries a [`Stamp`]. An endpoint keeps the stamp with the bytes, and refuses a
//!    change that is older than what it has (`Outcome::Outrun`). So a message that is late harms nobody.
//! 3. When all pieces are done, reads follow writes where a rule says so, and only then the IO is answered.
//! 4. Where a rule names a program, the IO waits until the program has said where it goes. The decision is of one
//!    version: if the rules change meanwhile, the program of the new rules is asked.
//! 5. The controller changes rules in steps: quiesce, drain, install, resume (sRoute paper, section 3.5).
//!
//! # Invariants
//!
//! - A switch that has started serves nothing until the controller has told it its rules.
//! - IO on the same bytes of an object, one of which changes them, keeps its order if it goes different ways.
//! - An IO goes to no destination that its program has not declared.
//! - A read that goes to the new place of bytes is never followed by one that goes to the old place.

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
