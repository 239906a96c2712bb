//! The shared log (CORFU): many writers append to one total order, and the only shared bottleneck
//! is a counter.
//!
//! A log's positions are striped over objects, so records are written to all targets at once. A
//! *sequencer* issues positions from memory. A *view* names the objects, the sequencer, and the
//! *epoch* under which both are valid. An object writes each position only once, and refuses old
//! epochs ([`log_class`]). Views are changed one at a time by compare-and-swap
//! ([`nacre_host::RecordStore`]).
//!
//! - [`Log`] appends and reads. An append takes a position from the sequencer and writes the record
//!   to the object of that position.
//! - [`SequencerHost`] is what a node runs. If a sequencer is lost, another node claims the next
//!   view (see [`nacre_host`]), seals the objects and finds the tail ([`core::RecoveryCore`]).
//! - If a target is lost, the sequencer opens a new layout at the tail, without that target.
//!
//! # Invariants
//!
//! - An acknowledged record is at its position, durably, and at no other.
//! - The content of a position that somebody has read never changes, except to trimmed.
//! - If a record is appended after another was acknowledged, it has the greater position.

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
