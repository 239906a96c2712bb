//! Recovery: how a node becomes a log's sequencer (CORFU, section 3.2.2).
//!
//! 1. Claim: propose the stored view's successor that names this node, and this claim. Whoever loses the
//!    race adopts the winner's view, even if that names a node of the same name.
//! 2. Seal every object of the last stripe at the claim's epoch. From then on nobody with an older
//!    view can write there. If the stripe is empty, go on with the one before.
//! 3. The tail is one past the greatest maximum, as far as that is a position of the stripe; serve from there.
//!
//! Stripes before the last non-empty one need no seal: all their positions are below the tail, and
//! whoever still holds one of them may write it, once.
//!
//! **Invariant:** it never serves before every object that an older sequencer's positions may lead
//! to, at or after the tail, is sealed. An object that does not answer is asked until it does.

use std::collections::BTreeSet;

use nacre_object::NodeName;

use crate::view::{Place, Sequencer, View};

/// What recovery wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecoveryCommand {
    /// Read the stored view.
    ReadView,
    /// Propose this view.
    Propose(View),
    /// Seal the object of a place of the claimed view.
    Seal {
        /// The view that was claimed; its epoch is the epoch to seal at.
        view: View,
        /// The place.
        place: Place,
    },
    /// Ask the object of a place for its maximum position.
    AskMaximum {
        /// The view that was claimed.
        view: View,
        /// The place.
        place: Place,
    },
    /// Done: hand out positions from the tail on.
    Serve {
        /// The view that was claimed.
        view: View,
        /// The first position to hand out.
        tail: u64,
    },
    /// Done: another view was first.
    Adopt(View),
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecoveryEvent {
    /// The stored view.
    View(View),
    /// The proposal was accepted.
    Proposed,
    /// It was not, or nobody knows.
    NotProposed,
    /// The object is sealed; its maximum position, if it has any.
    Sealed(Place, Option<u64>),
    /// The object is sealed at this epoch or a later one already.
    AlreadySealed(Place),
    /// The maximum position of an object that was sealed already.
    Maximum(Place, Option<u64>),
    /// The object did not answer; nobody knows whether it is sealed.
    NoAnswer(Place),
}

#[derive(Debug)]
enum State {
    /// Looking for the view to succeed.
    Reading,
    /// A claim is on its way.
    Claiming(View),
    /// Objects of one stripe are being sealed.
    Sealing {
        view: View,
        stripe: u64,
        waiting: BTreeSet<Place>,
        /// Sealed at our epoch or later: by us, if the view is still ours.
        doubtful: BTreeSet<Place>,
        maximum: Option<u64>,
    },
    Done,
}

/// One attempt of a node to become the sequencer.
#[derive(Debug)]
pub struct RecoveryCore {
    node: NodeName,
    /// What tells this attempt's claim from that of another process which is called the same.
    claim: u64,
    /// A view at least this old is to be succeeded; a younger one is adopted.
    replaces: u64,
    state: State,
}

impl RecoveryCore {
    /// Recovery by `node`, which succeeds the view of epoch `replaces` or an older one. If a later
    /// view is stored, somebody has been here before and that view is adopted. No other recovery claims by
    /// this number: draw it.
    pub fn new(node: NodeName, replaces: u64, claim: u64) -> Self {
        Self { node, claim, replaces, state: State::Reading }
    }

    /// What to do first.
    pub fn start(&self) -> Vec<RecoveryCommand> {
        vec![RecoveryCommand::ReadView]
    }

    /// Takes in what happened and says what to do about it. Events that come late or twice are
    /// harmless.
    pub fn handle(&mut self, event: RecoveryEvent) -> Vec<RecoveryCommand> {
        match event {
            RecoveryEvent::View(stored) => self.learn(stored),
            RecoveryEvent::Proposed => match std::mem::replace(&mut self.state, State::Done) {
                State::Claiming(view) => self.begin_stripe(view),
                other => self.unmoved(other),
            },
            RecoveryEvent::NotProposed => vec![RecoveryCommand::ReadView],
            RecoveryEvent::Sealed(place, found) | RecoveryEvent::Maximum(place, found) => {
                self.found(place, found)
            }
            RecoveryEvent::AlreadySealed(place) => self.doubt(place),
            RecoveryEvent::NoAnswer(place) => self.ask_again(place),
        }
    }

    fn unmoved(&mut self, state: State) -> Vec<RecoveryCommand> {
        self.state = state;
        vec![]
    }

    fn learn(&mut self, stored: View) -> Vec<RecoveryCommand> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Reading if stored.epoch() <= self.replaces => self.claim(&stored),
            State::Reading => vec![RecoveryCommand::Adopt(stored)],
            State::Claiming(view) if stored.epoch() < view.epoch() => self.claim(&stored),
            // The claim of which nobody knew was accepted after all.
            State::Claiming(view) if stored == view => self.begin_stripe(view),
            State::Claiming(_) => vec![RecoveryCommand::Adopt(stored)],
            State::Sealing { view, stripe, waiting, mut doubtful, maximum } => {
                if stored.sequencer() != view.sequencer() {
                    return vec![RecoveryCommand::Adopt(stored)];
                }
                let asked = std::mem::take(&mut doubtful);
                let ask = |place| RecoveryCommand::AskMaximum { view: view.clone(), place };
                let commands = asked.into_iter().map(ask).collect();
                self.state = State::Sealing { view, stripe, waiting, doubtful, maximum };
                commands
            }
            State::Done => vec![],
        }
    }

    fn claim(&mut self, stored: &View) -> Vec<RecoveryCommand> {
        let claim = stored.claimed_by(self.node.clone(), self.claim);
        self.state = State::Claiming(claim.clone());
        vec![RecoveryCommand::Propose(claim)]
    }

    fn begin_stripe(&mut self, view: View) -> Vec<RecoveryCommand> {
        let last = view.last_range().stripe_count() - 1;
        let lowest_tail = view.lowest_tail();
        // Objects that are wholly forgotten take no record under any epoch; buried ones refuse every seal.
        if view.last_range().stripe_end(last) <= lowest_tail {
            return self.serve(view, lowest_tail);
        }
        self.seal_stripe(view, last)
    }

    fn seal_stripe(&mut self, view: View, stripe: u64) -> Vec<RecoveryCommand> {
        let waiting: BTreeSet<_> = view.last_range().stripe_places(stripe).collect();
        let seal = |place: &Place| RecoveryCommand::Seal { view: view.clone(), place: *place };
        let commands = waiting.iter().map(seal).collect();
        let doubtful = BTreeSet::new();
        self.state = State::Sealing { view, stripe, waiting, doubtful, maximum: None };
        commands
    }

    fn found(&mut self, place: Place, found: Option<u64>) -> Vec<RecoveryCommand> {
        let State::Sealing { view, stripe, waiting, maximum, .. } = &mut self.state else {
            return vec![];
        };
        if !waiting.remove(&place) {
            return vec![];
        }
        *maximum = (*maximum).max(found);
        if !waiting.is_empty() {
            return vec![];
        }
        let (view, stripe, maximum) = (view.clone(), *stripe, *maximum);
        let lowest_tail = view.lowest_tail();
        match view.last_range().tail_in(stripe, maximum) {
            Some(tail) => self.serve(view, lowest_tail.max(tail)),
            // Below, everything is trimmed or there is nothing: no stripe tells more.
            None if stripe == 0 || view.last_range().stripe_end(stripe - 1) <= lowest_tail => {
                self.serve(view, lowest_tail)
            }
            None => self.seal_stripe(view, stripe - 1),
        }
    }

    fn serve(&mut self, view: View, tail: u64) -> Vec<RecoveryCommand> {
        self.state = State::Done;
        vec![RecoveryCommand::Serve { view, tail }]
    }

    fn doubt(&mut self, place: Place) -> Vec<RecoveryCommand> {
        match &mut self.state {
            State::Sealing { waiting, doubtful, .. } if waiting.contains(&place) => {
                doubtful.insert(place);
                vec![RecoveryCommand::ReadView]
            }
            _ => vec![],
        }
    }

    fn ask_again(&self, place: Place) -> Vec<RecoveryCommand> {
        match &self.state {
            State::Sealing { view, waiting, .. } if waiting.contains(&place) => {
                vec![RecoveryCommand::Seal { view: view.clone(), place }]
            }
            _ => vec![],
        }
    }

    /// The claim this recovery works for, once it is made.
    pub fn claim_identity(&self) -> Option<&Sequencer> {
        match &self.state {
            State::Claiming(view) | State::Sealing { view, .. } => view.sequencer(),
            State::Reading | State::Done => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{node, view_of};

    fn seal(view: &View, stripe: u64) -> Vec<RecoveryCommand> {
        let places = view.last_range().stripe_places(stripe);
        places.map(|place| RecoveryCommand::Seal { view: view.clone(), place }).collect()
    }

    /// Drives recovery of `stored` to its claim and answers that.
    fn claimed(core: &mut RecoveryCore, stored: &View) -> View {
        assert_eq!(core.start(), [RecoveryCommand::ReadView]);
        let commands = core.handle(RecoveryEvent::View(stored.clone()));
        let claim = stored.claimed_by(node("b"), 1);
        assert_eq!(commands, [RecoveryCommand::Propose(claim.clone())]);
        claim
    }

    fn answer_all(
        core: &mut RecoveryCore,
        view: &View,
        stripe: u64,
        maximum: Option<u64>,
    ) -> Vec<RecoveryCommand> {
        let places = view.last_range().stripe_places(stripe);
        places.flat_map(|place| core.handle(RecoveryEvent::Sealed(place, maximum))).collect()
    }

    #[test]
    fn it_claims_then_seals_then_serves_one_past_the_maximum() {
        let stored = view_of(2, 4).extended(2).unwrap();
        let mut core = RecoveryCore::new(node("b"), stored.epoch(), 1);
        let claim = claimed(&mut core, &stored);
        assert_eq!(core.handle(RecoveryEvent::Proposed), seal(&claim, 2));
        assert_eq!(answer_all(&mut core, &claim, 2, None), seal(&claim, 1));
        let places: Vec<_> = claim.last_range().stripe_places(1).collect();
        assert_eq!(core.handle(RecoveryEvent::Sealed(places[1], Some(13))), []);
        let served = core.handle(RecoveryEvent::Sealed(places[0], None));
        assert_eq!(served, [RecoveryCommand::Serve { view: claim, tail: 14 }]);
    }

    #[test]
    fn an_empty_log_starts_at_its_first_position() {
        let stored = view_of(2, 4);
        let mut core = RecoveryCore::new(node("b"), 1, 1);
        let claim = claimed(&mut core, &stored);
        core.handle(RecoveryEvent::Proposed);
        let served = answer_all(&mut core, &claim, 0, None);
        assert_eq!(served, [RecoveryCommand::Serve { view: claim, tail: 0 }]);
    }

    #[test]
    fn an_empty_range_starts_where_it_was_cut_and_older_ranges_are_left_alone() {
        let stored = crate::testing::cut_at(&view_of(2, 4), 5);
        let mut core = RecoveryCore::new(node("b"), stored.epoch(), 1);
        let claim = claimed(&mut core, &stored);
        assert_eq!(core.handle(RecoveryEvent::Proposed), seal(&claim, 0));
        assert_eq!(claim.last_range().id, 1);
        let served = answer_all(&mut core, &claim, 0, None);
        assert_eq!(served, [RecoveryCommand::Serve { view: claim, tail: 5 }]);
    }

    #[test]
    fn a_trimmed_stripe_is_not_asked_and_the_tail_stays_above_it() {
        let stored = view_of(2, 4).extended(1).unwrap().forgetting_below(8);
        let mut core = RecoveryCore::new(node("b"), stored.epoch(), 1);
        let claim = claimed(&mut core, &stored);
        core.handle(RecoveryEvent::Proposed);
        let served = answer_all(&mut core, &claim, 1, None);
        assert_eq!(served, [RecoveryCommand::Serve { view: claim, tail: 8 }]);
    }

    /// Whoever may read may fill, and objects take whatever position they are told.
    #[test]
    fn positions_that_are_none_of_a_stripe_do_not_move_the_tail() {
        let stored = view_of(2, 4).extended(2).unwrap();
        let recovered = |answers: [(u64, Option<u64>); 2]| {
            let mut core = RecoveryCore::new(node("b"), stored.epoch(), 1);
            let claim = claimed(&mut core, &stored);
            core.handle(RecoveryEvent::Proposed);
            let mut commands = vec![];
            for (stripe, maximum) in answers {
                commands = answer_all(&mut core, &claim, stripe, maximum);
            }
            match &commands[..] {
                [RecoveryCommand::Serve { tail, .. }] => *tail,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(recovered([(2, Some(1)), (1, Some(13))]), 14, "far below");
        assert_eq!(recovered([(2, None), (1, Some(1 << 52))]), 16, "far above");
    }

    #[test]
    fn it_does_not_serve_before_the_last_object_answers() {
        let stored = view_of(2, 4);
        let mut core = RecoveryCore::new(node("b"), 1, 1);
        let claim = claimed(&mut core, &stored);
        core.handle(RecoveryEvent::Proposed);
        let places: Vec<_> = claim.last_range().stripe_places(0).collect();
        assert_eq!(core.handle(RecoveryEvent::Sealed(places[0], Some(6))), []);
        for _ in 0..3 {
            let again = RecoveryCommand::Seal { view: claim.clone(), place: places[1] };
            assert_eq!(core.handle(RecoveryEvent::NoAnswer(places[1])), [again]);
        }
        // The same answer twice is one answer.
        assert_eq!(core.handle(RecoveryEvent::Sealed(places[0], Some(6))), []);
        let served = core.handle(RecoveryEvent::Sealed(places[1], Some(3)));
        assert_eq!(served, [RecoveryCommand::Serve { view: claim, tail: 7 }]);
    }

    #[test]
    fn who_loses_the_claim_adopts_the_winners_view() {
        let stored = view_of(2, 4);
        let mut core = RecoveryCore::new(node("b"), 1, 1);
        claimed(&mut core, &stored);
        assert_eq!(core.handle(RecoveryEvent::NotProposed), [RecoveryCommand::ReadView]);
        let winner = stored.claimed_by(node("c"), 2);
        let adopted = core.handle(RecoveryEvent::View(winner.clone()));
        assert_eq!(adopted, [RecoveryCommand::Adopt(winner)]);
    }

    #[test]
    fn of_two_of_one_name_that_claim_at_once_one_serves() {
        let stored = view_of(1, 4);
        let mut cores = [1, 2].map(|claim| RecoveryCore::new(node("b"), 1, claim));
        let claims = cores.each_mut().map(|core| {
            core.start();
            match &core.handle(RecoveryEvent::View(stored.clone()))[..] {
                [RecoveryCommand::Propose(claim)] => claim.clone(),
                other => panic!("{other:?} is no claim"),
            }
        });
        let [winner, loser] = &mut cores;
        assert_eq!(winner.handle(RecoveryEvent::Proposed), seal(&claims[0], 0));
        loser.handle(RecoveryEvent::NotProposed);
        let adopted = loser.handle(RecoveryEvent::View(claims[0].clone()));
        assert_eq!(adopted, [RecoveryCommand::Adopt(claims[0].clone())]);
    }

    #[test]
    fn a_claim_nobody_answered_is_recognised_or_made_again() {
        let stored = view_of(2, 4);
        let mut core = RecoveryCore::new(node("b"), 1, 1);
        let claim = claimed(&mut core, &stored);
        core.handle(RecoveryEvent::NotProposed);
        let again = core.handle(RecoveryEvent::View(stored));
        assert_eq!(again, [RecoveryCommand::Propose(claim.clone())]);
        core.handle(RecoveryEvent::NotProposed);
        assert_eq!(core.handle(RecoveryEvent::View(claim.clone())), seal(&claim, 0));
    }

    #[test]
    fn a_later_view_than_the_one_to_replace_is_adopted_at_once() {
        let stored = view_of(2, 4).claimed_by(node("c"), 2);
        let mut core = RecoveryCore::new(node("b"), 1, 1);
        let adopted = core.handle(RecoveryEvent::View(stored.clone()));
        assert_eq!(adopted, [RecoveryCommand::Adopt(stored)]);
    }

    #[test]
    fn an_object_sealed_already_is_asked_for_its_maximum_if_the_view_is_still_ours() {
        let stored = view_of(1, 4);
        let mut core = RecoveryCore::new(node("b"), 1, 1);
        let claim = claimed(&mut core, &stored);
        core.handle(RecoveryEvent::Proposed);
        let place = claim.last_range().stripe_places(0).next().unwrap();
        let look = core.handle(RecoveryEvent::AlreadySealed(place));
        assert_eq!(look, [RecoveryCommand::ReadView]);
        let ask = core.handle(RecoveryEvent::View(claim.clone()));
        assert_eq!(ask, [RecoveryCommand::AskMaximum { view: claim.clone(), place }]);
        let served = core.handle(RecoveryEvent::Maximum(place, Some(2)));
        assert_eq!(served, [RecoveryCommand::Serve { view: claim, tail: 3 }]);
    }

    #[test]
    fn an_object_sealed_by_somebody_else_ends_it() {
        let stored = view_of(1, 4);
        let mut core = RecoveryCore::new(node("b"), 1, 1);
        let claim = claimed(&mut core, &stored);
        core.handle(RecoveryEvent::Proposed);
        let place = claim.last_range().stripe_places(0).next().unwrap();
        core.handle(RecoveryEvent::AlreadySealed(place));
        let other = claim.claimed_by(node("c"), 2);
        let adopted = core.handle(RecoveryEvent::View(other.clone()));
        assert_eq!(adopted, [RecoveryCommand::Adopt(other)]);
    }
}
