//! The sequencer: a counter under an epoch.
//!
//! It is volatile. What it hands out is made safe elsewhere: a position is written once, and only
//! under an epoch that no recovery has sealed off.
//!
//! **Invariant:** every position it issues has an object in the view whose epoch goes with it.

use crate::limits::MAX_TOKENS;
use crate::view::{Sequencer, View};

/// Positions handed out: `first..first + count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// The first position.
    pub first: u64,
    /// How many; at least one, maybe fewer than asked for.
    pub count: u32,
    /// Whoever uses them must know a view of this epoch, or a later one.
    pub epoch: u64,
}

impl Grant {
    /// One past the last position.
    pub fn end(&self) -> u64 {
        self.first + u64::from(self.count)
    }

    /// Whether another sequencer than the one that issued it is in charge in `view`. Its positions
    /// may then lie past the tail: a record there would appear out of turn.
    pub fn is_void_in(&self, view: &View) -> bool {
        view.sequencer().is_none_or(|sequencer| sequencer.epoch > self.epoch)
    }
}

/// Why no position was handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenRefusal {
    /// The caller's view is older than this sequencer: it may know another one.
    Stale,
    /// The caller knows a later view: this sequencer may be deposed and must look.
    Behind,
    /// No position is left with an object, or they are held back: wait for the next view.
    Full,
}

/// A sequencer that serves.
#[derive(Debug, Clone)]
pub struct SequencerCore {
    identity: Sequencer,
    view: View,
    tail: u64,
    /// One past the last position it may hand out.
    limit: u64,
}

impl SequencerCore {
    /// The sequencer of `view`, from a tail that recovery found.
    ///
    /// # Panics
    /// If the view names no sequencer: recovery has claimed it.
    pub fn new(view: View, tail: u64) -> Self {
        let identity = view.sequencer().expect("recovery claims the view first").clone();
        let limit = view.end();
        Self { identity, view, tail, limit }
    }

    /// Hands out up to `count` positions to a caller whose view has `epoch`.
    ///
    /// # Errors
    /// See [`TokenRefusal`].
    pub fn next(&mut self, epoch: u64, count: u32) -> Result<Grant, TokenRefusal> {
        self.check(epoch)?;
        let left = self.limit.saturating_sub(self.tail).min(u64::from(MAX_TOKENS)) as u32;
        let count = count.max(1).min(left);
        if count == 0 {
            return Err(TokenRefusal::Full);
        }
        let grant = Grant { first: self.tail, count, epoch: self.view.epoch() };
        self.tail += u64::from(count);
        Ok(grant)
    }

    /// One past the last position handed out.
    ///
    /// # Errors
    /// As for [`SequencerCore::next`], but never `Full`.
    pub fn tail(&self, epoch: u64) -> Result<u64, TokenRefusal> {
        self.check(epoch).map(|()| self.tail)
    }

    fn check(&self, epoch: u64) -> Result<(), TokenRefusal> {
        if epoch < self.identity.epoch {
            Err(TokenRefusal::Stale)
        } else if epoch > self.view.epoch() {
            Err(TokenRefusal::Behind)
        } else {
            Ok(())
        }
    }

    /// The tail, for those who know the view.
    pub fn tail_now(&self) -> u64 {
        self.tail
    }

    /// The epoch by which it was installed.
    pub fn installed_at(&self) -> u64 {
        self.identity.epoch
    }

    /// The view it serves.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Whether less than half of a stripe is left, so that the next should be made ready.
    pub fn is_running_short(&self) -> bool {
        self.view.end().saturating_sub(self.tail)
            < self.view.last_range().stripe_positions().div_ceil(2)
    }

    /// Hands out nothing until the next [`SequencerCore::serve`]; answers the tail, which stays.
    pub fn hold(&mut self) -> u64 {
        self.limit = self.tail;
        self.tail
    }

    /// Goes on with the view that is stored now. Answers whether this sequencer is still the one;
    /// if not it must be dropped.
    #[must_use]
    pub fn serve(&mut self, stored: View) -> bool {
        if stored.sequencer() != Some(&self.identity) {
            return false;
        }
        if stored.epoch() >= self.view.epoch() {
            self.view = stored;
        }
        self.limit = self.view.end();
        true
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
    fn positions_are_handed_out_once_and_in_order() {
        let mut core = core();
        assert_eq!(core.next(2, 2), Ok(Grant { first: 3, count: 2, epoch: 2 }));
        assert_eq!(core.tail(2), Ok(5));
        assert_eq!(core.next(2, 0), Ok(Grant { first: 5, count: 1, epoch: 2 }));
    }

    #[test]
    fn a_grant_ends_with_the_objects_of_the_view() {
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
        assert_eq!(core.next(1, 1), Err(TokenRefusal::Stale));
        assert!(core.next(2, 1).is_ok() && core.next(3, 1).is_ok());
        assert_eq!(core.next(4, 1), Err(TokenRefusal::Behind));
        assert_eq!(core.tail(4), Err(TokenRefusal::Behind));
    }

    #[test]
    fn while_held_it_hands_out_nothing_and_the_tail_stays() {
        let mut core = core();
        assert_eq!(core.hold(), 3);
        assert_eq!(core.next(2, 1), Err(TokenRefusal::Full));
        assert_eq!(core.tail(2), Ok(3));
        assert!(core.serve(core.view().clone()));
        assert!(core.next(2, 1).is_ok());
    }

    #[test]
    fn a_deposed_sequencer_learns_it_even_from_its_own_node() {
        let mut core = core();
        let view = core.view().clone();
        assert!(!core.serve(view.claimed_by(node("b"), 2)));
        assert!(!core.serve(view.claimed_by(node("a"), 1)));
    }

    #[test]
    fn another_of_its_name_that_claimed_its_epoch_is_another() {
        let mut core = core();
        assert!(!core.serve(view_of(2, 4).claimed_by(node("a"), 2)));
        assert!(core.serve(view_of(2, 4).claimed_by(node("a"), 1)));
    }

    #[test]
    fn it_runs_short_at_half_a_stripe() {
        let mut core = core();
        assert!(!core.is_running_short());
        core.next(2, 2).unwrap();
        assert!(core.is_running_short());
    }
}
