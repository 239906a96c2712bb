//! The recovery of a log's tail, after a node has claimed the log (CORFU, section 3.2.2).
//!
//! 1. Seal every object of the last stripe at the claim's epoch. From then on no client with an
//!    older view can write there. If the stripe is empty, continue with the stripe before it.
//! 2. The tail is one past the greatest written position of the stripe. Serve from there. Ignore
//!    positions that do not belong to the stripe.
//! 3. If an object of the stripe was lost, nobody knows which of its positions were written. Then
//!    serve from the end of the stripe. So no acknowledged position is issued again, and a read of
//!    a lost position says that it is lost.
//!
//! Stripes before the last non-empty one need no seal. All their positions are below the tail, and
//! a client that was granted one of them may still write it once.
//!
//! **Invariant:** an older sequencer may have issued positions at or after the tail. Recovery
//! serves only after every object of such positions is sealed. If an object does not answer,
//! recovery asks it again.

use std::collections::BTreeSet;

use nacre_host::{Recovery, Step};

use crate::view::{EntryLocation, View};

/// What recovery wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecoveryCommand {
    /// Seal the object of a place of the claimed view.
    Seal {
        /// The claimed view. Its epoch is the epoch to seal at.
        view: View,
        /// The place.
        place: EntryLocation,
    },
    /// Ask the object of a place for its maximum position.
    AskMaximum {
        /// The view that was claimed.
        view: View,
        /// The place.
        place: EntryLocation,
    },
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecoveryEvent {
    /// The object is sealed; its maximum position, if it has any.
    Sealed(EntryLocation, Option<u64>),
    /// The object was already sealed at this epoch or a later one.
    AlreadySealed(EntryLocation),
    /// The maximum position of an object that was sealed already.
    Maximum(EntryLocation, Option<u64>),
    /// The object does not exist any more: it was lost with its storage target.
    Lost(EntryLocation),
    /// The object did not answer, so nobody knows whether it is sealed.
    NoAnswer(EntryLocation),
}

/// A step of recovery. The last step has the tail, which is the first position to issue.
pub type RecoveryStep = Step<RecoveryCommand, u64>;

/// One recovery.
#[derive(Debug)]
pub struct RecoveryCore {
    view: View,
    /// The stripe whose objects are being sealed.
    stripe: u64,
    waiting: BTreeSet<EntryLocation>,
    /// Objects that were already sealed at our epoch or later. If the stored view still has our
    /// claim, an earlier try of ours sealed them; else a newer sequencer did.
    doubtful: BTreeSet<EntryLocation>,
    maximum: Option<u64>,
    /// Whether an object of the stripe was lost.
    has_lost: bool,
}

impl Recovery for RecoveryCore {
    type Record = View;
    type Command = RecoveryCommand;
    type Event = RecoveryEvent;
    type Found = u64;

    fn new(claimed: View) -> Self {
        let stripe = claimed.last_range().stripe_count() - 1;
        let (waiting, doubtful) = Default::default();
        Self { view: claimed, stripe, waiting, doubtful, maximum: None, has_lost: false }
    }

    fn start(&mut self) -> Vec<RecoveryStep> {
        let lowest_tail = self.view.lowest_tail();
        // The view has forgotten all positions of the log, because they were trimmed. Their objects
        // accept no record under any epoch, so no seal is needed. A buried object would even refuse
        // the seal.
        if self.view.last_range().stripe_end(self.stripe) <= lowest_tail {
            return vec![Step::Serve(lowest_tail)];
        }
        self.seal_stripe()
    }

    fn handle(&mut self, event: RecoveryEvent) -> Vec<RecoveryStep> {
        match event {
            RecoveryEvent::Sealed(place, found) | RecoveryEvent::Maximum(place, found) => {
                self.found(place, found)
            }
            RecoveryEvent::Lost(place) => {
                self.has_lost |= self.waiting.contains(&place);
                self.found(place, None)
            }
            RecoveryEvent::AlreadySealed(place) if self.waiting.contains(&place) => {
                self.doubtful.insert(place);
                vec![Step::CheckClaim]
            }
            RecoveryEvent::NoAnswer(place) if self.waiting.contains(&place) => {
                vec![self.seal(place)]
            }
            RecoveryEvent::AlreadySealed(_) | RecoveryEvent::NoAnswer(_) => vec![],
        }
    }

    fn claim_stands(&mut self) -> Vec<RecoveryStep> {
        let asked = std::mem::take(&mut self.doubtful);
        let ask = |place| RecoveryCommand::AskMaximum { view: self.view.clone(), place };
        asked.into_iter().map(ask).map(Step::Do).collect()
    }
}

impl RecoveryCore {
    /// The claimed view, and one of the objects that have not answered yet. `None` if recovery
    /// waits for no object.
    pub fn waits_for(&self) -> Option<(&View, EntryLocation)> {
        self.waiting.first().map(|place| (&self.view, *place))
    }

    fn seal(&self, place: EntryLocation) -> RecoveryStep {
        Step::Do(RecoveryCommand::Seal { view: self.view.clone(), place })
    }

    fn seal_stripe(&mut self) -> Vec<RecoveryStep> {
        self.waiting = self.view.last_range().stripe_places(self.stripe).collect();
        self.doubtful.clear();
        self.maximum = None;
        self.waiting.iter().map(|place| self.seal(*place)).collect()
    }

    fn found(&mut self, place: EntryLocation, found: Option<u64>) -> Vec<RecoveryStep> {
        if !self.waiting.remove(&place) {
            return vec![];
        }
        self.maximum = self.maximum.max(found);
        if !self.waiting.is_empty() {
            return vec![];
        }
        let (range, lowest_tail) = (self.view.last_range(), self.view.lowest_tail());
        if self.has_lost {
            return vec![Step::Serve(lowest_tail.max(range.stripe_end(self.stripe)))];
        }
        if let Some(tail) = range.tail_in(self.stripe, self.maximum) {
            return vec![Step::Serve(lowest_tail.max(tail))];
        }
        // All earlier positions are trimmed, or there are none. So no earlier stripe has a greater
        // tail.
        if self.stripe == 0 || range.stripe_end(self.stripe - 1) <= lowest_tail {
            return vec![Step::Serve(lowest_tail)];
        }
        self.stripe -= 1;
        self.seal_stripe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{node, view_of};

    fn seal(view: &View, stripe: u64) -> Vec<RecoveryStep> {
        let places = view.last_range().stripe_places(stripe);
        let seal = |place| RecoveryCommand::Seal { view: view.clone(), place };
        places.map(seal).map(Step::Do).collect()
    }

    /// The recovery of `stored`, once it is claimed, with the claim.
    fn claimed(stored: &View) -> (RecoveryCore, View) {
        let claim = stored.claimed_by(node("b"), 1);
        (RecoveryCore::new(claim.clone()), claim)
    }

    fn answer_all(
        core: &mut RecoveryCore,
        view: &View,
        stripe: u64,
        maximum: Option<u64>,
    ) -> Vec<RecoveryStep> {
        let places = view.last_range().stripe_places(stripe);
        places.flat_map(|place| core.handle(RecoveryEvent::Sealed(place, maximum))).collect()
    }

    #[test]
    fn recovery_seals_stripe_by_stripe_then_serves_one_past_the_maximum() {
        let (mut core, claim) = claimed(&view_of(2, 4).extended(2).unwrap());
        assert_eq!(core.start(), seal(&claim, 2));
        assert_eq!(answer_all(&mut core, &claim, 2, None), seal(&claim, 1));
        let places: Vec<_> = claim.last_range().stripe_places(1).collect();
        assert_eq!(core.handle(RecoveryEvent::Sealed(places[1], Some(13))), []);
        assert_eq!(core.handle(RecoveryEvent::Sealed(places[0], None)), [Step::Serve(14)]);
    }

    #[test]
    fn an_empty_log_starts_at_its_first_position() {
        let (mut core, claim) = claimed(&view_of(2, 4));
        core.start();
        assert_eq!(answer_all(&mut core, &claim, 0, None), [Step::Serve(0)]);
    }

    #[test]
    fn recovery_of_an_empty_last_range_serves_from_its_start_and_seals_no_older_range() {
        let (mut core, claim) = claimed(&crate::testing::cut_at(&view_of(2, 4), 5));
        assert_eq!(core.start(), seal(&claim, 0));
        assert_eq!(claim.last_range().id, 1);
        assert_eq!(answer_all(&mut core, &claim, 0, None), [Step::Serve(5)]);
    }

    #[test]
    fn a_trimmed_stripe_is_not_asked_and_the_tail_stays_above_it() {
        let stored = view_of(2, 4).extended(1).unwrap().forgetting_below(8);
        let (mut core, claim) = claimed(&stored);
        core.start();
        assert_eq!(answer_all(&mut core, &claim, 1, None), [Step::Serve(8)]);
    }

    /// A client with only the right to read may fill, and an object fills any position that the
    /// client names, even one outside of the object's stripe. Such a fill must not decide the tail.
    #[test]
    fn positions_outside_a_stripe_do_not_move_the_tail() {
        let stored = view_of(2, 4).extended(2).unwrap();
        let recovered = |answers: [(u64, Option<u64>); 2]| {
            let (mut core, claim) = claimed(&stored);
            core.start();
            let mut steps = vec![];
            for (stripe, maximum) in answers {
                steps = answer_all(&mut core, &claim, stripe, maximum);
            }
            match &steps[..] {
                [Step::Serve(tail)] => *tail,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(recovered([(2, Some(1)), (1, Some(13))]), 14, "far below");
        assert_eq!(recovered([(2, None), (1, Some(1 << 52))]), 16, "far above");
    }

    #[test]
    fn recovery_does_not_serve_before_the_last_object_answers() {
        let (mut core, claim) = claimed(&view_of(2, 4));
        core.start();
        let places: Vec<_> = claim.last_range().stripe_places(0).collect();
        assert_eq!(core.handle(RecoveryEvent::Sealed(places[0], Some(6))), []);
        for _ in 0..3 {
            let again = RecoveryCommand::Seal { view: claim.clone(), place: places[1] };
            assert_eq!(core.handle(RecoveryEvent::NoAnswer(places[1])), [Step::Do(again)]);
        }
        assert_eq!(core.waits_for(), Some((&claim, places[1])));
        // The same answer twice is one answer.
        assert_eq!(core.handle(RecoveryEvent::Sealed(places[0], Some(6))), []);
        let served = core.handle(RecoveryEvent::Sealed(places[1], Some(3)));
        assert_eq!(served, [Step::Serve(7)]);
    }

    #[test]
    fn a_stripe_that_has_lost_an_object_counts_as_full() {
        let (mut core, claim) = claimed(&view_of(2, 4).extended(2).unwrap());
        core.start();
        assert_eq!(answer_all(&mut core, &claim, 2, None), seal(&claim, 1));
        let places: Vec<_> = claim.last_range().stripe_places(1).collect();
        assert_eq!(core.handle(RecoveryEvent::Sealed(places[1], Some(13))), []);
        assert_eq!(core.handle(RecoveryEvent::Lost(places[0])), [Step::Serve(16)]);
        let (mut core, claim) = claimed_at_once();
        let lost = claim.last_range().stripe_places(0).map(RecoveryEvent::Lost);
        let steps: Vec<_> = lost.flat_map(|event| core.handle(event)).collect();
        assert_eq!(steps, [Step::Serve(8)], "nobody knows where the tail was");
    }

    fn claimed_at_once() -> (RecoveryCore, View) {
        let (mut core, claim) = claimed(&view_of(2, 4));
        core.start();
        (core, claim)
    }

    #[test]
    fn recovery_asks_an_object_that_is_sealed_already_for_its_maximum() {
        let (mut core, claim) = claimed(&view_of(1, 4));
        core.start();
        let place = claim.last_range().stripe_places(0).next().unwrap();
        assert_eq!(core.handle(RecoveryEvent::AlreadySealed(place)), [Step::CheckClaim]);
        let ask = RecoveryCommand::AskMaximum { view: claim.clone(), place };
        assert_eq!(core.claim_stands(), [Step::Do(ask)]);
        assert_eq!(core.handle(RecoveryEvent::Maximum(place, Some(2))), [Step::Serve(3)]);
    }
}
