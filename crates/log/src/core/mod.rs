//! The decisions of the log, as state machines that take events and return commands. They have no
//! IO, no clock and no randomness.
//!
//! The runtime carries out the commands. `tests/simulation.rs` runs the same machines over a
//! simulated network that loses, delays and repeats messages.

mod append;
mod lending;
mod recovery;
mod sequencer;

pub use append::{AppendCommand, AppendCore, AppendEvent, ReadBack};
pub use lending::{Answer, Lent, News, Returned, Wanted};
pub use recovery::{RecoveryCommand, RecoveryCore, RecoveryEvent, RecoveryStep};
pub use sequencer::{Grant, SequencerCore, TokenRefusal};
