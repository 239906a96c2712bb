//! The shared log (CORFU): many writers, one order, no bottleneck but a counter.
//!
//! A log's positions are striped over objects, so records are written to all targets at once. A
//! *sequencer* hands out positions from memory; a *view* says which objects there are, who the
//! sequencer is, and under which *epoch* all this holds. Objects keep each position write-once and
//! refuse old epochs ([`log_class`]); views are changed one at a time by compare-and-swap
//! ([`nacre_host::RecordStore`]). Everything else follows:
//!
//! - [`Log`] appends (position from the sequencer, record to the object) and reads;
//! - [`SequencerHost`] is what a node runs; if a sequencer is lost another node claims the next view, as
//!   [`nacre_host`] has it, seals the objects and finds the tail ([`core::RecoveryCore`]);
//! - if a target is lost the sequencer lays positions out around it from the tail on.
//!
//! # Invariants
//!
//! - A record whose append was acknowledged is at its position, durably, and at no other.
//! - What a position was seen to hold never changes, except to trimmed.
//! - A record appended after another was acknowledged has the greater position.

mod call_rule;
mod client;
mod codec;
pub mod core;
mod env;
pub mod limits;
mod name;
mod record;
mod sequencer;
mod storage;
#[cfg(test)]
mod testing;
pub mod view;

pub use call_rule::log_call_rule;
pub use client::{Entry, Follow, Log, LogOptions, LogStat, ReadSlot};
pub use env::{AnyVersion, Batching, ClassVersions, LogEnv, Patience};
pub use name::LogName;
pub use sequencer::{
    Reconfiguration, SEQUENCER_SERVICE, SequencerCaller, SequencerCounts, SequencerHost,
    SequencerUse, is_question_of_producers,
};
pub use storage::{BRADOS_CLASS, NATIVE_CLASS, PROGRAM_CLASS, log_class, storage_methods};
pub use view::LOG_OBJECT_PREFIX;
