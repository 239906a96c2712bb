//! The controller: a state machine that changes the rules of several switches together. A node runs
//! it.
//!
//! An update has these steps. A step ends when all switches have completed it.
//!
//! 1. The controller stores the record of the update.
//! 2. All switches quiesce: they hold new IO that the changed rules match.
//! 3. All switches drain: no such IO is in flight any more.
//! 4. The runtime moves bytes, and locates the newest bytes of objects.
//! 5. All switches install the rules.
//! 6. All switches resume: they let the held IO go on.
//!
//! All switches must quiesce before any of them drains. Otherwise a write that begins at one switch
//! could overtake a read that has drained at another (sRoute paper, section 3.5).
//!
//! When a controller takes over, or when a switch restarts, the controller installs the stored
//! rules again under a new term (the number of an update). Switches refuse orders of earlier terms,
//! so a former controller can do no harm.

mod core;
mod newest;
mod record;

pub use core::{Controller, ControllerCommand, ControllerEvent, Stored};
pub use newest::{Found, newest};
pub use record::{Followed, Move, Record, Wanted};
