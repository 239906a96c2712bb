//! The controller's core: it changes the rules of several switches together.
//!
//! An update goes in steps, and each step ends when all switches have done it: the record is stored; all switches
//! quiesce; all drain; bytes are moved, and the newest are found; all install; all resume. Quiescing all before any
//! drains matters: else a write that begins at one switch passes a read that has drained at another (sRoute paper,
//! section 3.5).
//!
//! A controller that takes over, and a switch that has started, lead to the same: the stored rules are installed anew,
//! under a new term. Switches refuse orders of earlier terms, so a former controller can do no harm.

mod core;
mod newest;
mod record;

pub use core::{Controller, ControllerCommand, ControllerEvent, Stored};
pub use newest::{Found, newest};
pub use record::{Followed, Move, Record, Wanted};
