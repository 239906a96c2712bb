//! `ResourceMachine`: a resource that a node serves.

use std::sync::Arc;

use nacre_clock::Clock;
use nacre_host::{Machine, Record, Serving};
use nacre_object::{Error, Result};

use crate::filetype::{FileType, Survival};
use crate::{ResourceRecord, Stored};

/// A resource that a node serves.
///
/// **Invariant:** a client's answer is the one that the authority of that moment would have given.
/// **Invariant:** an answer depends on stored changes only. A recovered type is the exception: then the stored state says
/// [`Stored::is_behind`].
#[derive(Debug)]
pub struct ResourceMachine {
    serving: Serving<ResourceRecord>,
    /// With the changes that are not stored yet; `None` before the first call of a new resource.
    pub(crate) current: Option<Stored>,
    /// The last change that is stored.
    pub(crate) stored_version: u64,
    /// Answers wait until all changes up to this one are stored.
    pub(crate) store_through: u64,
    /// Whether the recovery function of the file type has to run on the state first.
    must_recover: bool,
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
        let must_recover = current.as_ref().is_some_and(|stored| stored.is_behind);
        let (answers, confirmed, is_held) = Default::default();
        Self {
            serving,
            current,
            stored_version,
            store_through: stored_version,
            must_recover,
            answers,
            confirmed,
            map_epoch,
            is_held,
        }
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

    /// Whether a change for which answers wait is not stored yet.
    pub(crate) fn is_ahead(&self) -> bool {
        self.store_through > self.stored_version
    }

    /// The state, on which this version of the file type may run. Makes it for a new resource, and recovers it after a
    /// take-over.
    ///
    /// # Errors
    /// `Unavailable` if a later version made the state, or if it must be recovered and this version cannot; those of
    /// `init` and of the recovery function.
    pub(crate) fn state_for(
        &mut self,
        file_type: &FileType,
        clock: &Arc<dyn Clock>,
    ) -> Result<&mut Stored> {
        let (born, live) = (self.serving.record().born(), file_type.version());
        if self.current.is_none() {
            let state = file_type.initial(clock)?;
            self.current = Some(Stored { born, state, ..Stored::default() });
        }
        if let Some(current) = &mut self.current {
            if current.type_version > live {
                let then = current.type_version;
                return Err(Error::unavailable(format!(
                    "the state was made by version {then} of its file type, and version {live} is live here"
                ))
                .hint("activate that version again, or a later one"));
            }
            if self.must_recover {
                current.state = file_type.recovered(&current.state, clock.now_micros(), clock)?;
                (current.version, current.type_version) = (current.version + 1, live);
                (self.store_through, self.must_recover) = (current.version, false);
            }
        }
        if file_type.survival() == Survival::Journaled {
            self.store_all();
        }
        self.current.as_mut().ok_or_else(|| Error::corrupt("a resource without a state"))
    }

    /// Notes that the state was changed. Its answer waits for the store if `must_store` says so, if the type is
    /// journaled, or if the stored state does not say yet that it may be behind.
    pub(crate) fn note_change(&mut self, survival: Survival, must_store: bool) {
        let Some(current) = &mut self.current else { return };
        let is_recovered = survival == Survival::Recovered;
        if must_store || !is_recovered || !current.is_behind {
            self.store_through = current.version;
        }
        current.is_behind = is_recovered;
    }

    /// Has answers wait until the whole state is stored, so that a successor need not recover it. A state that has to be
    /// recovered first stays as it is.
    pub(crate) fn store_all(&mut self) {
        let Some(current) = self.current.as_mut().filter(|_| !self.must_recover) else { return };
        if current.is_behind {
            current.is_behind = false;
            current.version += 1;
            self.store_through = current.version;
        }
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
