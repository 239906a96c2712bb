//! What decides: state machines without IO, time or randomness. Events in, commands out.
//!
//! The runtime around them carries out the commands; the simulation in `tests/simulation.rs` does
//! so too, over a network that loses, delays and repeats.

mod append;
mod lending;
mod recovery;
mod sequencer;

pub use append::{AppendCommand, AppendCore, AppendEvent, ReadBack};
pub use lending::{Answer, Lent, News, Returned, Wanted};
pub use recovery::{RecoveryCommand, RecoveryCore, RecoveryEvent, RecoveryStep};
pub use sequencer::{Grant, SequencerCore, TokenRefusal};
