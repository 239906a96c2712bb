//! Decides the next step when a class changes to another layout (another way to store its rows). It
//! is a pure state machine; the layout task (`layout_task`) carries out the steps.
//!
//! The next step follows from the recorded phase and from the active version. So any process that
//! reads the record can continue the change, even after a person has activated another version. The
//! *base* is the version before the change. The *bridge* and the *target* read rows in the old and
//! in the new location. The bridge writes rows to the old location, the target to the new one.
//!
//! | recorded | active | next |
//! |---|---|---|
//! | bridge | base | activate the bridge |
//! | bridge | bridge | wait until the bridge is live on all nodes, then record phase `target` |
//! | target | bridge | activate the target |
//! | any | target | wait until the target is live on all nodes, then record phase `walk` |
//! | walk | bridge | the change was rolled back: move the objects back |
//! | walk | the walk's version, activated again | another version was active meanwhile: start the walk again |
//! | target, walk | base | the change was rolled back past the bridge; only the bridge can read moved objects: activate it |
//! | any | any other version | end the change: a person activated that version |
//!
//! A finished change stays in the record. If a person rolls it back later, the walk starts again in
//! the other direction.

use nacre_registry::Activation;
use serde::{Deserialize, Serialize};

/// A change of layout, as it is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutChange {
    /// The layout that the objects are to come into.
    pub layout: String,
    /// The former layout.
    pub former: String,
    /// The versions of the class: before, the bridge, the target.
    pub base: u64,
    /// The bridge writes rows to the old place, and reads them in both places.
    pub bridge: u64,
    /// The target writes rows to the new place, and reads them in both places.
    pub target: u64,
    /// How far it has come.
    pub phase: Phase,
}

/// How far a change has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The bridge is to be live everywhere.
    Bridge,
    /// The target is to be live everywhere.
    Target,
    /// Objects are moved.
    Walk(Walk),
}

/// The progress of a walk over all objects. Each pass visits the pools in the order of their names,
/// and the objects of each pool in the order of their names. The walk ends after a pass that finds
/// nothing to move.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walk {
    /// The version into whose layout objects are moved.
    pub version: u64,
    /// Which activation of `version` started this walk. If `version` was activated again later,
    /// another version was active in between, and objects may be in its layout. So the walk must
    /// start again.
    pub activation: u64,
    /// Passes that are done.
    pub passes: u32,
    /// How many passes in a row, up to the last one, failed to move some object.
    pub failing_passes: u32,
    /// The pool that the walk is in; `None` stands for the first pool.
    pub pool: Option<String>,
    /// The last object of this pool that was looked at.
    pub after: Option<String>,
    /// How many objects were moved in this pass.
    pub moved_in_pass: u64,
    /// How many objects could not be moved in this pass.
    pub failed_in_pass: u64,
    /// Objects that were moved, in all passes.
    pub moved: u64,
    /// Rows that the walk has moved, in all passes.
    pub rows: u64,
}

/// The next step of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Activate `version`, if `instead_of` is still active.
    Activate { version: u64, instead_of: u64 },
    /// Wait until a version is live on all nodes, then record the phase `then`.
    Await { version: u64, then: Phase },
    /// Look at more objects.
    Walk(Walk),
    /// Somebody has activated a version of their own.
    Overtaken,
}

/// How a walk continues after a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Onward {
    /// The walk goes on from here.
    Walk(Walk),
    /// The walk over all objects has ended. `unmoved` objects stay in the former layout, because
    /// several passes in a row failed to move them.
    Over { unmoved: u64 },
}

/// How many passes in a row may fail to move an object before the walk leaves the object in its
/// former layout.
pub(super) const MAX_FAILING_PASSES: u32 = 3;

impl LayoutChange {
    /// The next step of the change while this version is active.
    pub(super) fn next(&self, active: Option<Activation>) -> Step {
        let Some(activation) = active else { return Step::Overtaken };
        let active = activation.version;
        let walk = |version| {
            Phase::Walk(Walk { version, activation: activation.number, ..Walk::default() })
        };
        let activate = |version| Step::Activate { version, instead_of: active };
        match &self.phase {
            Phase::Walk(known) if known.is_under(activation) => Step::Walk(known.clone()),
            _ if active == self.target => Step::Await { version: active, then: walk(active) },
            Phase::Bridge if active == self.bridge => {
                Step::Await { version: active, then: Phase::Target }
            }
            Phase::Target if active == self.bridge => activate(self.target),
            Phase::Walk(_) if active == self.bridge => {
                Step::Await { version: active, then: walk(active) }
            }
            _ if active == self.base => activate(self.bridge),
            _ => Step::Overtaken,
        }
    }

    /// Whether a finished change must start again. It must if the class was rolled back or forward
    /// since, because its objects are then in the wrong layout. It also must if another version was
    /// active meanwhile, because each object may then be in either layout.
    pub(super) fn is_turned(&self, active: Option<Activation>) -> bool {
        let (Some(activation), Phase::Walk(walk)) = (active, &self.phase) else { return false };
        let active = activation.version;
        if walk.version == active {
            return !walk.is_under(activation);
        }
        let versions = [self.base, self.bridge, self.target];
        versions.contains(&active) && (walk.version == self.target) != (active == self.target)
    }

    /// Whether this version has been active without a break since all objects were found in its
    /// layout.
    pub(super) fn is_settled_since(&self, active: Activation) -> bool {
        matches!(&self.phase, Phase::Walk(walk) if walk.activation != 0 && walk.is_under(active))
    }

    /// The layout that objects are brought into at present.
    pub fn destination(&self) -> &str {
        match &self.phase {
            Phase::Walk(walk) if walk.version == self.bridge => &self.former,
            _ => &self.layout,
        }
    }
}

impl Walk {
    fn is_under(&self, active: Activation) -> bool {
        self.version == active.version && [0, active.number].contains(&self.activation)
    }

    /// How the walk continues after the end of a pass.
    pub(super) fn after_pass(mut self) -> Onward {
        let unmoved = self.failed_in_pass;
        self.passes += 1;
        self.failing_passes = if unmoved == 0 { 0 } else { self.failing_passes + 1 };
        let is_left_alone = unmoved == 0 || self.failing_passes >= MAX_FAILING_PASSES;
        if self.moved_in_pass == 0 && is_left_alone {
            return Onward::Over { unmoved };
        }
        (self.pool, self.after) = (None, None);
        (self.moved_in_pass, self.failed_in_pass) = (0, 0);
        Onward::Walk(self)
    }
}

#[cfg(test)]
mod tests {
    use nacre_clock::Random;

    use super::*;

    fn change(phase: Phase) -> LayoutChange {
        LayoutChange {
            layout: "kv: slots(64)".into(),
            former: "map".into(),
            base: 1,
            bridge: 2,
            target: 3,
            phase,
        }
    }

    /// The first activation of a version.
    fn once(version: u64) -> Activation {
        Activation { version, number: 10 + version }
    }

    /// A walk that the first activation of a version started.
    fn walk(version: u64) -> Phase {
        let activation = once(version).number;
        Phase::Walk(Walk { version, activation, ..Walk::default() })
    }

    #[test]
    fn a_change_and_its_rollback_activate_the_bridge_between_base_and_target() {
        let next = |phase, active| change(phase).next(Some(once(active)));
        let activate = |version, instead_of| Step::Activate { version, instead_of };
        let wait = |version, then| Step::Await { version, then };
        assert_eq!(next(Phase::Bridge, 1), activate(2, 1));
        assert_eq!(next(Phase::Bridge, 2), wait(2, Phase::Target));
        assert_eq!(next(Phase::Target, 2), activate(3, 2));
        assert_eq!(next(Phase::Target, 3), wait(3, walk(3)));
        assert!(matches!(next(walk(3), 3), Step::Walk(_)));
        assert_eq!(next(walk(3), 2), wait(2, walk(2)));
        assert!(matches!(next(walk(2), 2), Step::Walk(_)));
        assert_eq!(next(walk(2), 1), activate(2, 1), "the base cannot read what was moved");
        assert_eq!(next(walk(2), 3), wait(3, walk(3)), "and forward again");
        assert_eq!(next(walk(3), 4), Step::Overtaken);
        assert_eq!(change(Phase::Bridge).next(None), Step::Overtaken);
        assert_eq!(change(walk(2)).destination(), "map");
    }

    /// At random times, layout tasks die, and people roll the change back. Even so, the target never
    /// becomes active before the bridge is live everywhere, and all objects end in the layout of
    /// the active version.
    #[test]
    fn all_objects_end_in_the_active_layout_although_layout_tasks_die_at_any_time() {
        for seed in 0..300 {
            let mut random = Random::seeded(seed);
            let (mut record, mut active, mut bridge_is_everywhere) =
                (change(Phase::Bridge), 1, false);
            let mut activations = 0;
            // How many of the twenty objects are in the new layout.
            let (mut moved, mut rollbacks) = (0_u64, random.below(4));
            for steps in 0.. {
                assert!(steps < 1000, "seed {seed}: no end");
                if rollbacks > 0 && active > 1 && random.one_in(10) {
                    (active, rollbacks, activations) = (active - 1, rollbacks - 1, activations + 1);
                }
                let step = record.next(Some(Activation { version: active, number: activations }));
                // The task may die before it carries out the step, or before it records the step.
                let (dies_before, dies_after) = (random.one_in(4), random.one_in(4));
                match step {
                    _ if dies_before => {}
                    Step::Activate { version, instead_of } => {
                        assert!(version != 3 || bridge_is_everywhere, "seed {seed}");
                        assert_eq!(instead_of, active);
                        (active, activations) = (version, activations + 1);
                    }
                    Step::Await { version, then } => {
                        bridge_is_everywhere |= version == 2;
                        if !dies_after {
                            record.phase = then;
                        }
                    }
                    Step::Walk(mut walk) => {
                        let is_back = walk.version == record.bridge;
                        let misplaced = if is_back { moved } else { 20 - moved };
                        let some = misplaced.min(1 + random.below(5));
                        moved = if is_back { moved - some } else { moved + some };
                        walk.moved_in_pass += some;
                        let is_pass_over = misplaced == 0;
                        match if is_pass_over { walk.after_pass() } else { Onward::Walk(walk) } {
                            _ if dies_after => {}
                            Onward::Walk(walk) => record.phase = Phase::Walk(walk),
                            Onward::Over { .. } => break,
                        }
                    }
                    Step::Overtaken => panic!("seed {seed}: nobody did"),
                }
            }
            assert_eq!(
                (active, moved == 20, moved == 0),
                (active, active == 3, active == 2),
                "seed {seed}"
            );
        }
    }

    #[test]
    fn a_finished_change_starts_again_when_it_is_rolled_back() {
        let is_turned = |walked, active| change(walk(walked)).is_turned(Some(once(active)));
        assert!(is_turned(3, 2) && is_turned(3, 1), "what was moved is not where they have it");
        assert!(is_turned(2, 3), "and forward again");
        assert!(!is_turned(3, 3) && !is_turned(2, 2) && !is_turned(2, 1) && !is_turned(3, 4));
        assert!(
            !change(walk(3)).is_turned(None) && !change(Phase::Target).is_turned(Some(once(2)))
        );
    }

    #[test]
    fn a_finished_change_moves_objects_again_if_another_version_was_active_meanwhile() {
        let change = change(walk(3));
        let again = Activation { version: 3, number: 99 };
        assert!(change.is_settled_since(once(3)) && !change.is_turned(Some(once(3))));
        assert!(!change.is_settled_since(once(4)) && !change.is_settled_since(again));
        assert!(change.is_turned(Some(again)));
        let walk = Walk { version: 3, activation: 99, ..Walk::default() };
        assert_eq!(change.next(Some(again)), Step::Await { version: 3, then: Phase::Walk(walk) });
    }

    #[test]
    fn a_walk_stored_without_its_activation_continues_but_never_counts_as_complete() {
        let change = change(Phase::Walk(Walk { version: 3, ..Walk::default() }));
        assert!(matches!(change.next(Some(once(3))), Step::Walk(_)));
        assert!(!change.is_turned(Some(once(3))) && !change.is_settled_since(once(3)));
    }

    #[test]
    fn a_walk_ends_with_a_pass_that_finds_nothing_to_move_or_fails_too_often() {
        let pass = |moved, failed, failing_passes| {
            let walk = Walk { passes: 7, failing_passes, ..Walk::default() };
            match (Walk { moved_in_pass: moved, failed_in_pass: failed, ..walk }).after_pass() {
                Onward::Walk(walk) => Ok((walk.moved_in_pass, walk.passes, walk.failing_passes)),
                Onward::Over { unmoved } => Err(unmoved),
            }
        };
        assert_eq!(pass(1, 0, 0), Ok((0, 8, 0)));
        assert_eq!(pass(0, 0, 0), Err(0));
        assert_eq!(pass(0, 2, 0), Ok((0, 8, 1)), "however many passes there were before");
        assert_eq!(pass(1, 2, MAX_FAILING_PASSES), Ok((0, 8, MAX_FAILING_PASSES + 1)));
        assert_eq!(pass(1, 0, MAX_FAILING_PASSES), Ok((0, 8, 0)), "what failed was moved then");
        assert_eq!(pass(0, 2, MAX_FAILING_PASSES - 1), Err(2));
    }
}
