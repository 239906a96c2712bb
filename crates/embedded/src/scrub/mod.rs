//! Scrubbing: reads everything the engine keeps, to find damage before a client needs the data.
//!
//! A scrub is a sequence of steps. Each step does a bounded amount of work and returns its findings
//! and a cursor for the next step. The engine keeps nothing between steps. So a scrub needs little
//! memory, its caller sets the pace, and an unfinished scrub leaves nothing behind.
//!
//! | stage | reads | file |
//! | --- | --- | --- |
//! | journal | the manifest, and the groups that a crash now would replay | `journal` |
//! | files | every file of tables, whole, against its checksum | `files` |
//! | entries | every entry of the tables and every payload they refer to | `entries` |
//!
//! A finding names the affected objects where they are known. Damage to a payload or entry affects
//! the objects and snapshots whose stream, map or attributes contain it. An unreadable range of
//! keys affects every object with an entry in it. Damage in the manifest, or in groups that the
//! tables have, is repaired by a checkpoint.
//!
//! **Invariant:** concurrent changes are never reported as damage. Every step uses one snapshot of
//! the tables, under a pin that keeps the segments it refers to.

mod cursor;
mod entries;
mod files;
mod journal;
mod owners;
mod stretch;

use nacre_object::{ObjectId, Result};

use crate::core::Core;
pub use cursor::ScrubCursor;
use cursor::Stage;
pub(crate) use files::checksum;
pub(crate) use stretch::{end_of_unreadable, successor};

/// Bytes of payloads and entries one step reads: some milliseconds of a disk.
pub const SCRUB_STEP_BYTES: u64 = 4 * 1024 * 1024;
/// Entries one step looks at, however small.
pub const SCRUB_STEP_ENTRIES: u64 = 4096;
/// The most findings that one step reports in full; it only counts the others.
pub const MAX_STEP_DAMAGES: usize = 256;

/// Stored data that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The damaged object as `pool/name`; `None` if it is unknown or the damage is in no object.
    pub object: Option<String>,
    /// The snapshot of the object, if it is in one.
    pub snapshot: Option<String>,
    /// The file and byte, or the entry.
    pub place: String,
    /// What is wrong with it.
    pub problem: String,
    /// Whether the damage was repaired.
    pub is_repaired: bool,
}

/// The result of one step of a scrub.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScrubStep {
    /// What was found, up to [`MAX_STEP_DAMAGES`].
    pub damages: Vec<Damage>,
    /// What was found beyond that.
    pub more_damages: u64,
    /// The objects whose heads were among the entries, at most [`SCRUB_STEP_ENTRIES`].
    pub objects: Vec<ObjectId>,
    /// Entries looked at.
    pub entries: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Where the next step begins; `None` at the end.
    pub next: Option<ScrubCursor>,
}

impl ScrubStep {
    fn add(&mut self, damage: Damage) {
        if self.damages.len() < MAX_STEP_DAMAGES {
            self.damages.push(damage);
        } else {
            self.more_damages += 1;
        }
    }

    fn is_full(&self) -> bool {
        self.bytes >= SCRUB_STEP_BYTES || self.entries >= SCRUB_STEP_ENTRIES
    }
}

impl Damage {
    /// Damage that belongs to no object.
    pub fn of_store(place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            object: None,
            snapshot: None,
            place: place.into(),
            problem: problem.into(),
            is_repaired: false,
        }
    }
}

/// Does the step of a scrub that begins at `cursor`.
///
/// # Errors
/// `Unavailable` if the disk does not answer. Damage is reported in the step and is not an error.
pub(crate) fn step(core: &Core, cursor: &ScrubCursor) -> Result<ScrubStep> {
    match &cursor.0 {
        Stage::Journal => journal::step(core),
        Stage::Files { after } => files::step(core, *after),
        Stage::Entries { from } => entries::step(core, from),
    }
}
