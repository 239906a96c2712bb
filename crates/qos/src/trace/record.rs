//! A trace in memory.

use std::sync::Arc;
use std::time::Duration;

use crate::IoKind;

/// The location that a request reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TraceLocation {
    /// The trace does not name it.
    Unknown,
    /// An offset in a volume or a file.
    Block {
        /// The index of the volume's name in [`Trace::names`].
        volume: usize,
        /// Bytes from the volume's beginning.
        offset: u64,
    },
    /// An object.
    Object {
        /// The index of the object's name in [`Trace::names`].
        name: usize,
    },
}

/// One request of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceRecord {
    /// The time from the first request of the trace to this one.
    pub at: Duration,
    /// Whether it reads or writes.
    pub kind: IoKind,
    /// Bytes that it moves.
    pub bytes: u64,
    /// The location that it reads or writes.
    pub location: TraceLocation,
}

/// The requests of a trace.
///
/// **Invariant:** the records are sorted by time, and the first one is at time 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// The requests.
    pub records: Vec<TraceRecord>,
    /// The volumes, files or objects that the records name.
    pub names: Vec<Arc<str>>,
    /// The resolution of the clock that recorded the times.
    pub clock_step: Duration,
}

impl Trace {
    /// The offset of the record's first byte in its object.
    pub fn offset_in_object(&self, record: &TraceRecord, block_bytes: u64) -> u64 {
        match record.location {
            TraceLocation::Block { offset, .. } => offset % block_bytes.max(1),
            TraceLocation::Unknown | TraceLocation::Object { .. } => 0,
        }
    }

    /// The name of the record's object, if the trace names it. A volume is assumed to consist of
    /// objects of `block_bytes`, as in the SLO thesis.
    pub fn object(&self, record: &TraceRecord, block_bytes: u64) -> Option<String> {
        match record.location {
            TraceLocation::Unknown => None,
            TraceLocation::Object { name } => Some(self.names[name].to_string()),
            TraceLocation::Block { volume, offset } => {
                Some(format!("{}.{}", self.names[volume], offset / block_bytes.max(1)))
            }
        }
    }
}
