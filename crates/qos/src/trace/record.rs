//! A trace in memory.

use std::sync::Arc;
use std::time::Duration;

use crate::IoKind;

/// Where a request goes, as far as the trace names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// The trace does not say it.
    Unknown,
    /// An offset in a volume or a file.
    Block {
        /// The place of the volume's name in [`Trace::names`].
        volume: usize,
        /// Bytes from the volume's beginning.
        offset: u64,
    },
    /// An object.
    Object {
        /// The place of the object's name in [`Trace::names`].
        name: usize,
    },
}

/// One request of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceRecord {
    /// When it came: the time since the first request of the trace.
    pub at: Duration,
    /// Whether it reads or writes.
    pub kind: IoKind,
    /// Bytes that it moves.
    pub bytes: u64,
    /// Where it goes.
    pub place: Place,
}

/// The requests of a trace.
///
/// **Invariant:** the records are in the order of their times, and the first record is at time 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// The requests.
    pub records: Vec<TraceRecord>,
    /// The volumes, files or objects that the records name.
    pub names: Vec<Arc<str>>,
    /// The step of the clock that the times were read from.
    pub clock_step: Duration,
}

impl Trace {
    /// The first byte of a record in its object.
    pub fn offset_in_object(&self, record: &TraceRecord, block_bytes: u64) -> u64 {
        match record.place {
            Place::Block { offset, .. } => offset % block_bytes.max(1),
            Place::Unknown | Place::Object { .. } => 0,
        }
    }

    /// The object of a record, if the record names one. A volume consists of objects of
    /// `block_bytes`, as in the thesis.
    pub fn object(&self, record: &TraceRecord, block_bytes: u64) -> Option<String> {
        match record.place {
            Place::Unknown => None,
            Place::Object { name } => Some(self.names[name].to_string()),
            Place::Block { volume, offset } => {
                Some(format!("{}.{}", self.names[volume], offset / block_bytes.max(1)))
            }
        }
    }
}
