//! `ResourceMachine`: a resource that a node serves.

use nacre_host::{Machine, Record, Serving};

use crate::{ResourceRecord, Stored};

/// A resource that a node serves.
///
/// **Invariant:** what any client is told depends on no change that is not stored, and is what the authority of that
/// moment would have said.
#[derive(Debug)]
pub struct ResourceMachine {
    serving: Serving<ResourceRecord>,
    /// With the changes that are not stored yet; `None` before the first call of a new resource.
    pub(crate) current: Option<Stored>,
    /// The last change that is stored.
    pub(crate) stored_version: u64,
    /// Counts the answers, in the order in which they were found.
    pub(crate) answers: u64,
    /// The answers up to this one may be given: what they depend on is stored, and no other node was the authority when
    /// they were found.
    pub(crate) confirmed: u64,
    /// The epoch of the map that the next change follows.
    pub(crate) map_epoch: u64,
    is_held: bool,
}

impl ResourceMachine {
    /// The machine that a recovery found.
    pub(crate) fn new(record: ResourceRecord, found: Found) -> Self {
        let current = found.stored.filter(|stored| stored.born == record.born());
        let stored_version = current.as_ref().map_or(0, |stored| stored.version);
        let (map_epoch, serving) = (found.map_epoch, Serving::new(record));
        let (answers, confirmed, is_held) = Default::default();
        Self { serving, current, stored_version, answers, confirmed, map_epoch, is_held }
    }

    /// Whether calls wait.
    pub(crate) fn is_held(&self) -> bool {
        self.is_held
    }

    /// The number of an answer that has just been found.
    pub(crate) fn next_answer(&mut self) -> u64 {
        self.answers += 1;
        self.answers
    }

    /// Whether a change is not stored yet.
    pub(crate) fn is_ahead(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.version > self.stored_version)
    }
}

impl Machine for ResourceMachine {
    type Record = ResourceRecord;

    fn serving(&self) -> &Serving<ResourceRecord> {
        &self.serving
    }

    fn hold(&mut self) {
        self.is_held = true;
    }

    fn serve(&mut self, stored: ResourceRecord) -> bool {
        self.is_held = false;
        self.serving.go_on_by(stored)
    }
}

/// What a recovery found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The epoch of the map that has the claim and the state.
    pub map_epoch: u64,
    /// The state; `None` if none was stored yet.
    pub stored: Option<Stored>,
}
