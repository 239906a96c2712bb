//! The decisions of the log: state machines without IO, time or randomness that take events and
//! return commands.
//!
//! The runtime carries out the commands. The simulation in `tests/simulation.rs` does so too, over
//! a network that loses, delays and repeats messages.

mod append;
mod lending;
mod recovery;
mod sequencer;

pub use append::{AppendCommand, AppendCore, AppendEvent, ReadBack};
pub use lending::{Answer, Lent, News, Returned, Wanted};
pub use recovery::{RecoveryCommand, RecoveryCore, RecoveryEvent, RecoveryStep};
pub use sequencer::{Grant, SequencerCore, TokenRefusal};
