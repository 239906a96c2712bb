//! How the authority of a state machine changes the machine's stored record while clients use the
//! machine.
//!
//! **Invariant:** an authority never gives clients anything, such as a position of a log, that
//! contradicts the stored record.
//!
//! - If a change contradicts nothing that clients may get meanwhile, the authority proposes it
//!   while it serves.
//! - For any other change the authority holds the machine ([`PausedMachine`]): the machine answers no
//!   client. If the outcome of the proposal is unknown, the machine stops serving. The next
//!   recovery reads which record is stored.

use nacre_object::{Error, ErrorKind, Result};

use super::hosting::{Hosting, NameOf};
use super::slot::Slot;
use crate::backoff::Backoff;
use crate::core::Machine;
use crate::outcome::is_undecided;
use crate::record::{Record, deposed};
use crate::records::{RecordStore, stored};

/// How many times a change is proposed if no answer comes.
const MAX_ATTEMPTS: usize = 3;

/// Proposes `next`, a record that contradicts nothing that the state machine gives clients
/// meanwhile. The machine then serves under the stored record. Returns that record's epoch.
///
/// # Errors
/// `Stale` if this authority is deposed; `NotFound` if the machine was removed. After `Unavailable`
/// the machine continues to serve under the old record.
pub async fn propose_while_serving<K: Hosting>(
    records: &dyn RecordStore<K::Record>,
    slot: &Slot<K>,
    next: &K::Record,
) -> Result<u64> {
    match decide(records, next).await {
        Ok(stored) => go_on_by(slot, stored),
        Err(error) => {
            if error.kind() == ErrorKind::NotFound {
                slot.install(None);
            }
            Err(error)
        }
    }
}

/// A state machine that answers no client while this value exists. When the value is dropped, the
/// machine serves again, or stops serving if the outcome of a proposal is unknown.
#[derive(Debug)]
pub struct PausedMachine<'a, K: Hosting> {
    slot: &'a Slot<K>,
    is_in_doubt: bool,
}

impl<'a, K: Hosting> PausedMachine<'a, K> {
    /// Holds the machine.
    ///
    /// # Errors
    /// `Stale` if it is deposed.
    pub fn hold(slot: &'a Slot<K>) -> Result<Self> {
        slot.machine().as_mut().ok_or_else(deposed::<K::Record>)?.hold();
        Ok(Self { slot, is_in_doubt: false })
    }

    /// Proposes the record that `next` makes from the held state machine. The machine then serves
    /// under the stored record. Returns that record's epoch.
    ///
    /// # Errors
    /// Those of `next`; `Stale` if this authority is deposed. After `Unavailable` or `NotFound` the
    /// outcome is unknown, and the machine stops serving.
    pub async fn propose(
        mut self,
        records: &dyn RecordStore<K::Record>,
        next: impl FnOnce(&K::Machine) -> Result<K::Record> + Send,
    ) -> Result<u64> {
        let next = next(self.slot.machine().as_ref().ok_or_else(deposed::<K::Record>)?)?;
        self.is_in_doubt = true;
        let stored = decide(records, &next).await?;
        self.is_in_doubt = false;
        go_on_by(self.slot, stored)
    }
}

impl<K: Hosting> PausedMachine<'_, K> {
    /// Reads the stored record and returns it. The state machine then serves under that record, or
    /// stops if the record names another authority. `before` gets the record before waiting clients
    /// are woken.
    ///
    /// # Errors
    /// After `Unavailable` or `NotFound` the record is unknown, and the machine stops serving.
    pub async fn go_on(
        mut self,
        records: &dyn RecordStore<K::Record>,
        name: &NameOf<K>,
        before: impl FnOnce(&K::Record) + Send,
    ) -> Result<K::Record> {
        self.is_in_doubt = true;
        let record = stored(records, name).await?;
        self.is_in_doubt = false;
        before(&record);
        self.slot.adopt(record.clone());
        Ok(record)
    }
}

impl<K: Hosting> Drop for PausedMachine<'_, K> {
    fn drop(&mut self) {
        if self.is_in_doubt {
            self.slot.install(None);
        } else {
            self.slot.resume();
        }
    }
}

fn go_on_by<K: Hosting>(slot: &Slot<K>, stored: K::Record) -> Result<u64> {
    let epoch = stored.epoch();
    if slot.adopt(stored) { Ok(epoch) } else { Err(deposed::<K::Record>()) }
}

/// Proposes a record until it or another record of its epoch is stored. Returns the stored one.
async fn decide<R: Record>(records: &dyn RecordStore<R>, proposed: &R) -> Result<R> {
    let mut backoff = Backoff::new();
    for _ in 0..MAX_ATTEMPTS {
        match records.propose(proposed).await {
            Ok(()) => return Ok(proposed.clone()),
            Err(error) if is_undecided(&error) => match records.last(proposed.name()).await {
                Ok(Some(stored)) if stored.is_removed() => {
                    return Err(R::not_found(proposed.name()));
                }
                Ok(Some(stored)) if stored.epoch() >= proposed.epoch() => return Ok(stored),
                _ => {}
            },
            Err(error) => return Err(error),
        }
        backoff.wait().await;
    }
    let text = format!("the {}'s {} cannot be changed now", R::WORDS.thing, R::WORDS.record);
    Err(Error::unavailable(text))
}
