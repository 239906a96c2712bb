//! One grant, as the authority that gave it sees it.

use std::time::Duration;

use crate::limits::LEASE;
use crate::policy::{Asker, Holding, Mode, Terms, Time};

/// A grant that has not been returned.
#[derive(Debug, Clone)]
pub struct Granted {
    pub(super) asker: Asker,
    pub(super) number: u64,
    pub(super) mode: Mode,
    pub(super) terms: Terms,
    pub(super) granted_at: Time,
    /// When the lease ends. The holder then does nothing under the grant, unless it was renewed.
    pub(super) lease_until: Time,
    /// When the grant is revoked. `None` while no other client needs the capability.
    pub(super) revoke_at: Option<Time>,
    pub(super) is_revoked: bool,
    /// How many operations the holder has reported.
    pub(super) operations: u64,
    /// The authority numbers its requests for reports. `asked` is the number of its last request,
    /// `answered` that of the last request that the holder has answered.
    pub(super) asked: u64,
    pub(super) answered: u64,
    /// When the authority asked for the first report that is still missing.
    pub(super) asked_at: Option<Time>,
}

impl Granted {
    pub(super) fn new(now: Time, asker: Asker, number: u64, mode: Mode, terms: Terms) -> Self {
        Self {
            asker,
            number,
            mode,
            terms,
            granted_at: now,
            lease_until: now + LEASE,
            revoke_at: None,
            is_revoked: false,
            operations: 0,
            asked: 0,
            answered: 0,
            asked_at: None,
        }
    }

    /// Who holds it.
    pub fn asker(&self) -> &Asker {
        &self.asker
    }

    /// The number under which it was asked for.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// What it lets the holder do.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether the holder must return it.
    pub fn is_revoked(&self) -> bool {
        self.is_revoked
    }

    /// The number of the last report that the authority has asked for.
    pub fn asked(&self) -> u64 {
        self.asked
    }

    pub(super) fn is_of(&self, client: u64, number: u64) -> bool {
        self.asker.client == client && self.number == number
    }

    pub(super) fn holding(&self, now: Time) -> Holding<'_> {
        Holding {
            asker: &self.asker,
            mode: self.mode,
            held: now.saturating_sub(self.granted_at),
            terms: self.terms,
            operations: self.operations,
        }
    }

    /// When the authority must act on this grant if the holder stays silent.
    pub(super) fn due_at(&self) -> Option<Time> {
        if self.is_revoked {
            return Some(self.lease_until);
        }
        let unanswered = self.asked_at.map(|at| at + LEASE);
        self.revoke_at.into_iter().chain(unanswered).min()
    }

    /// Takes a poll of the holder. `answered` is the number of the last request for a report that
    /// the poll answers, or 0.
    pub(super) fn hear(&mut self, now: Time, operations: u64, answered: u64) {
        self.operations = self.operations.max(operations);
        self.answered = self.answered.max(answered.min(self.asked));
        if self.answered == self.asked {
            self.asked_at = None;
        }
        if !self.is_revoked {
            self.lease_until = self.lease_until.max(now + LEASE);
        }
    }

    /// Asks the holder for a report; returns the report's number.
    pub(super) fn ask(&mut self, now: Time) -> u64 {
        self.asked += 1;
        self.asked_at.get_or_insert(now);
        self.asked
    }

    /// Revokes the grant after `keep`, unless it is to be revoked sooner.
    pub(super) fn limit(&mut self, now: Time, keep: Duration) {
        let at = now + keep;
        self.revoke_at = Some(self.revoke_at.map_or(at, |before| before.min(at)));
    }
}
