//! A machine that serves, and the record by which it does.

use std::fmt;

use crate::record::{Authority, Record};

/// A machine that a node serves.
pub trait Machine: fmt::Debug + Send + 'static {
    /// What is stored of it.
    type Record: Record;

    /// By which record it serves.
    fn serving(&self) -> &Serving<Self::Record>;

    /// Hands out nothing until the next [`Machine::serve`].
    fn hold(&mut self);

    /// Continues to serve under the record that is stored now. Returns whether this machine is
    /// still the authority. If not, the caller must drop the machine.
    #[must_use]
    fn serve(&mut self, stored: Self::Record) -> bool;
}

/// Why a machine does not answer a client whose record has a certain epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EpochRefusal {
    /// The client's record is older than this authority: it may know another one.
    Stale,
    /// The client knows a later record: this authority may be deposed and must look.
    Behind,
}

/// An authority and the record by which it serves.
///
/// **Invariant:** the record names the authority.
#[derive(Debug, Clone)]
pub struct Serving<R> {
    authority: Authority,
    record: R,
}

impl<R: Record> Serving<R> {
    /// The authority that a record names.
    ///
    /// # Panics
    /// If the record names no authority. A take-over always stores a record that names one before
    /// it serves.
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

    /// Goes on by the record that is stored now. Returns whether that names this very authority.
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
