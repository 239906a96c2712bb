//! A state machine that a node serves, and the record that makes this node its authority.

use std::fmt;

use crate::record::{Authority, Record};

/// A machine that a node serves.
pub trait Machine: fmt::Debug + Send + 'static {
    /// The stored record of the machine.
    type Record: Record;

    /// The authority and the record under which the machine serves.
    fn serving(&self) -> &Serving<Self::Record>;

    /// Issues nothing until the next [`Machine::serve`].
    fn hold(&mut self);

    /// Continues to serve, under the stored record. Returns whether that record still names this
    /// machine's authority. If it does not, the caller must drop the machine.
    #[must_use]
    fn serve(&mut self, stored: Self::Record) -> bool;
}

/// Why a host refuses a client, judged by the epoch of the client's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EpochRefusal {
    /// The client's record is older than this authority, so it may name another authority.
    Stale,
    /// The client knows a later record. The host must read the stored record: it may be deposed.
    Behind,
}

/// An authority and the record under which it serves.
///
/// **Invariant:** the record names the authority.
#[derive(Debug, Clone)]
pub struct Serving<R> {
    authority: Authority,
    record: R,
}

impl<R: Record> Serving<R> {
    /// Starts to serve as the authority that `record` names.
    ///
    /// # Panics
    /// If the record names no authority. A takeover always stores a record that names an authority
    /// before it serves.
    pub fn new(record: R) -> Self {
        let authority = record.authority().expect("a take-over claims the record first").clone();
        Self { authority, record }
    }

    /// Whether a client whose record has `epoch` may be answered.
    ///
    /// # Errors
    /// See [`EpochRefusal`].
    pub fn check(&self, epoch: u64) -> Result<(), EpochRefusal> {
        if epoch < self.authority.epoch {
            Err(EpochRefusal::Stale)
        } else if epoch > self.record.epoch() {
            Err(EpochRefusal::Behind)
        } else {
            Ok(())
        }
    }

    /// Serves under the stored record from now on. Returns whether it names this authority.
    #[must_use]
    pub fn go_on_by(&mut self, stored: R) -> bool {
        let is_authority = stored.authority() == Some(&self.authority);
        if is_authority && stored.epoch() >= self.record.epoch() {
            self.record = stored;
        }
        is_authority
    }

    /// The record.
    pub fn record(&self) -> &R {
        &self.record
    }

    /// The authority.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }
}
