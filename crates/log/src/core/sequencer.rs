//! The sequencer: a counter under an epoch.
//!
//! The counter is only in memory. Objects make its positions safe: each position is written once,
//! and only under an epoch that no recovery has sealed.
//!
//! While a client holds the sequencer's exclusive capability, that client issues the positions: see
//! [`Lending`](super::lending::Lending).
//!
//! **Invariant:** the sequencer issues each position with an epoch, and the view of that epoch has
//! an object for the position.
//!
//! **Invariant:** while a client holds the capability, the sequencer itself issues nothing.

use std::sync::Arc;

use nacre_capability::{NoPrograms, Policies};
use nacre_host::{EpochRefusal, Machine, Serving};
use nacre_object::ProgramName;

use super::lending::Lending;
use crate::limits::MAX_TOKENS;
use crate::view::View;

/// Positions handed out: `first..first + count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// The first position.
    pub first: u64,
    /// How many; at least one, maybe fewer than asked for.
    pub count: u32,
    /// A client that uses these positions must know the view of this epoch, or a later one.
    pub epoch: u64,
}

impl Grant {
    /// One past the last position.
    pub fn end(&self) -> u64 {
        self.first + u64::from(self.count)
    }

    /// Whether `view` names another sequencer than the one that issued this grant. Then the
    /// positions of the grant may be past the tail, and a record there would appear out of order.
    pub fn is_void_in(&self, view: &View) -> bool {
        view.sequencer().is_none_or(|sequencer| sequencer.epoch > self.epoch)
    }
}

/// Why no position was handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenRefusal {
    /// The caller's epoch does not fit.
    Epoch(EpochRefusal),
    /// The view has an object for no further position, or the sequencer issues nothing while its
    /// view changes. The client must wait for the next view.
    Full,
    /// A client holds the sequencer's capability.
    Lent,
}

/// A sequencer that serves.
#[derive(Debug)]
pub struct SequencerCore {
    serving: Serving<View>,
    /// What the holder has told of, while it is lent.
    pub(super) tail: u64,
    /// One past the last position it may hand out.
    pub(super) limit: u64,
    pub(super) lending: Lending,
}

impl SequencerCore {
    /// The sequencer of `view`, with the tail that recovery found.
    ///
    /// # Panics
    /// If the view names no sequencer. A takeover always stores a view that names one first.
    pub fn new(view: View, tail: u64) -> Self {
        let limit = view.end();
        let lending = Lending::by(Arc::new(NoPrograms), None);
        Self { serving: Serving::new(view), tail, limit, lending }
    }

    /// Lends the capability by the policy that the view names. Without this call, the default
    /// policy decides.
    #[must_use]
    pub fn with_policies(self, policies: Arc<dyn Policies>) -> Self {
        let lending = Lending::by(policies, self.view().capability().map(ProgramName::as_str));
        Self { lending, ..self }
    }

    /// Issues up to `count` positions to a client whose view has `epoch`.
    ///
    /// # Errors
    /// See [`TokenRefusal`].
    pub fn next(&mut self, epoch: u64, count: u32) -> Result<Grant, TokenRefusal> {
        self.check(epoch).map_err(TokenRefusal::Epoch)?;
        if self.is_lent() {
            return Err(TokenRefusal::Lent);
        }
        let left = self.limit.saturating_sub(self.tail).min(u64::from(MAX_TOKENS)) as u32;
        let count = count.max(1).min(left);
        if count == 0 {
            return Err(TokenRefusal::Full);
        }
        let grant = Grant { first: self.tail, count, epoch: self.view().epoch() };
        self.tail += u64::from(count);
        Ok(grant)
    }

    /// One past the last position that this sequencer knows to be issued.
    ///
    /// # Errors
    /// See [`EpochRefusal`].
    pub fn tail(&self, epoch: u64) -> Result<u64, EpochRefusal> {
        self.check(epoch).map(|()| self.tail)
    }

    /// Checks that a client whose view has this epoch may be answered.
    ///
    /// # Errors
    /// See [`EpochRefusal`].
    pub fn check(&self, epoch: u64) -> Result<(), EpochRefusal> {
        self.serving.check(epoch)
    }

    /// The tail, without a check of the client's epoch. While a client holds the capability, the
    /// true tail may be greater.
    pub fn tail_now(&self) -> u64 {
        self.tail
    }

    /// The view it serves.
    pub fn view(&self) -> &View {
        self.serving.record()
    }

    /// Whether less than half of a stripe is left. Then the next stripe must be created.
    pub fn is_running_short(&self) -> bool {
        self.view().end().saturating_sub(self.tail)
            < self.view().last_range().stripe_positions().div_ceil(2)
    }
}

impl Machine for SequencerCore {
    type Record = View;

    fn serving(&self) -> &Serving<View> {
        &self.serving
    }

    /// The tail stays.
    fn hold(&mut self) {
        self.limit = self.tail;
    }

    fn serve(&mut self, stored: View) -> bool {
        let is_authority = self.serving.go_on_by(stored);
        if is_authority {
            self.limit = self.view().end();
            self.lending.go_by(self.serving.record().capability().map(ProgramName::as_str));
        }
        is_authority
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{node, view_of};

    fn core() -> SequencerCore {
        // Two columns of four slots: positions 0..8 have objects.
        SequencerCore::new(view_of(2, 4).claimed_by(node("a"), 1), 3)
    }

    #[test]
    fn positions_are_issued_once_and_in_order() {
        let mut core = core();
        assert_eq!(core.next(2, 2), Ok(Grant { first: 3, count: 2, epoch: 2 }));
        assert_eq!(core.tail(2), Ok(5));
        assert_eq!(core.next(2, 0), Ok(Grant { first: 5, count: 1, epoch: 2 }));
    }

    #[test]
    fn a_grant_has_only_positions_with_objects_in_the_view() {
        let mut core = core();
        assert_eq!(core.next(2, 100).map(|grant| grant.count), Ok(5));
        assert_eq!(core.next(2, 1), Err(TokenRefusal::Full));
        let longer = core.view().extended(1).unwrap();
        assert!(core.serve(longer));
        assert_eq!(core.next(2, 100), Ok(Grant { first: 8, count: 8, epoch: 3 }));
    }

    #[test]
    fn a_callers_epoch_must_lie_between_the_sequencers_and_the_views() {
        let mut core = core();
        assert!(core.serve(core.view().clone().extended(1).unwrap()));
        assert_eq!(core.next(1, 1), Err(TokenRefusal::Epoch(EpochRefusal::Stale)));
        assert!(core.next(2, 1).is_ok() && core.next(3, 1).is_ok());
        assert_eq!(core.next(4, 1), Err(TokenRefusal::Epoch(EpochRefusal::Behind)));
        assert_eq!(core.tail(4), Err(EpochRefusal::Behind));
    }

    #[test]
    fn a_paused_sequencer_issues_nothing_and_keeps_its_tail() {
        let mut core = core();
        core.hold();
        assert_eq!(core.tail_now(), 3);
        assert_eq!(core.next(2, 1), Err(TokenRefusal::Full));
        assert_eq!(core.tail(2), Ok(3));
        assert!(core.serve(core.view().clone()));
        assert!(core.next(2, 1).is_ok());
    }

    #[test]
    fn a_sequencer_learns_that_it_is_deposed_even_by_a_claim_of_its_own_node() {
        let mut core = core();
        let view = core.view().clone();
        assert!(!core.serve(view.claimed_by(node("b"), 2)));
        assert!(!core.serve(view.claimed_by(node("a"), 1)));
    }

    #[test]
    fn a_sequencer_ends_when_another_claim_of_its_node_and_epoch_is_stored() {
        let mut core = core();
        assert!(!core.serve(view_of(2, 4).claimed_by(node("a"), 2)));
        assert!(core.serve(view_of(2, 4).claimed_by(node("a"), 1)));
    }

    #[test]
    fn a_sequencer_runs_short_when_less_than_half_a_stripe_is_left() {
        let mut core = core();
        assert!(!core.is_running_short());
        core.next(2, 2).unwrap();
        assert!(core.is_running_short());
    }
}
