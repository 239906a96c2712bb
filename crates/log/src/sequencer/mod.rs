//! The sequencer at run time: the host on a node, and the client that finds it.

mod borrower;
mod client;
#[cfg(test)]
mod fuzz_tests;
mod host;
mod hosting;
mod lender;
mod lending_messages;
mod messages;
mod reconfigure;
mod recovery;

pub(crate) use client::{SequencerClient, dismiss};
pub use host::{SEQUENCER_SERVICE, SequencerCaller, SequencerCounts, SequencerHost, SequencerUse};
pub use messages::{Reconfiguration, is_question_of_producers};
pub(crate) use reconfigure::{SEAL_PATIENCE, seal_first};
