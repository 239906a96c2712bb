//! The controller's core: it changes the rules of several switches together.
//!
//! An update has these steps. A step ends when all switches have done it.
//!
//! 1. The controller stores the record of the update.
//! 2. All switches quiesce the IO that the change concerns.
//! 3. All switches drain it.
//! 4. The runtime moves bytes, and finds where the newest bytes are.
//! 5. All switches install the rules.
//! 6. All switches resume.
//!
//! All switches must quiesce before any drains. Otherwise a write that begins at one switch could
//! pass a read that has drained at another (sRoute paper, section 3.5).
//!
//! When a controller takes over, or a switch starts, the stored rules are installed again under a
//! new term. Switches refuse orders of earlier terms, so a former controller can do no harm.

mod core;
mod newest;
mod record;

pub use core::{Controller, ControllerCommand, ControllerEvent, Stored};
pub use newest::{Found, newest};
pub use record::{Followed, Move, Record, Wanted};
