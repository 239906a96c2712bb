//! The options of a new log, and what a client reads from a log.

use bytes::Bytes;
use nacre_object::{ClassName, NodeName, PoolName, ProgramName};

use crate::PROGRAM_CLASS;
use crate::view::Layout;

/// How many entries one object holds, unless the creator of the log chooses another number. With
/// some ten thousand entries an object is small enough to be deleted in one step, and the view
/// rarely has to change.
pub const DEFAULT_SLOTS: u32 = 16 * 1024;

/// How a log is made.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// The pool of its objects.
    pub pool: PoolName,
    /// The class that implements the storage interface.
    pub class: ClassName,
    /// The number of objects of a stripe. `None` for as many as keep all targets busy.
    pub width: Option<u32>,
    /// Entries of an object.
    pub slots: u32,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            pool: PoolName::new("log").expect("a literal"),
            class: ClassName::new(PROGRAM_CLASS).expect("a literal"),
            width: None,
            slots: DEFAULT_SLOTS,
        }
    }
}

impl LogOptions {
    /// `columns` for a log over all targets.
    pub(crate) fn layout(&self, columns: usize) -> Layout {
        let width =
            self.width.unwrap_or(columns.clamp(1, crate::limits::MAX_WIDTH as usize) as u32);
        Layout { width, slots: self.slots }
    }
}

/// The content of a position that was written, filled or trimmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A record.
    Data(Bytes),
    /// The position holds no data and never will. A client filled it because the position's writer
    /// took too long.
    Filled,
    /// Nothing any more.
    Trimmed,
    /// The data of the position is lost: its object was on a storage target that was lost.
    Lost,
}

/// A position with what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadSlot {
    /// The position.
    pub position: u64,
    /// What it holds; `None` while it is unwritten.
    pub entry: Option<Entry>,
}

/// A log at a glance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogStat {
    /// The epoch of its view.
    pub epoch: u64,
    /// The position the next record gets.
    pub tail: u64,
    /// All positions below are trimmed, and their objects buried. Later positions may be trimmed
    /// too.
    pub kept_from: u64,
    /// The node of the sequencer, which issues positions.
    pub sequencer: Option<NodeName>,
    /// The class that implements the storage interface.
    pub class: ClassName,
    /// The program that decides which client holds the sequencer's capability. `None` for the
    /// default policy.
    pub capability: Option<ProgramName>,
    /// Objects of a stripe, where records go now.
    pub width: u32,
    /// Entries of an object, where records go now.
    pub slots: u32,
    /// Ranges of positions that are striped differently.
    pub ranges: usize,
    /// Objects up to the tail.
    pub objects: u64,
}
