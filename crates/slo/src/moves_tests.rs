//! Tests of moves in the map `slo`, and of admission beside direct traffic: decisions on a map that
//! is a value.

use std::collections::BTreeMap;

use nacre_object::{ErrorKind, TargetName, TenantName};
use nacre_qos::scheduler::{Commits, DeviceLimits, KindLimits};
use nacre_qos::{IoKind, Profile, ProfileRow};
use nacre_registry::{Change, MapState, SLO_MAP};

use crate::beside::decide_beside;
use crate::moves::{MovedTenant, finish, give_back};
use crate::records::{PLACEMENT_PREFIX, Placement, SloState, StoredProfile, TARGET_PREFIX, encode};
use crate::slos::decide;
use crate::{Ask, Outcome, Rate, Spread, Traffic, advise};

const BYTES: u64 = 4096;

/// A map `slo`.
struct World(MapState);

impl World {
    /// OSDs that each do so many requests a second.
    fn new(requests_per_second: &[f64]) -> Self {
        let mut world = Self(MapState::empty(SLO_MAP.parse().unwrap()));
        for (osd, requests) in requests_per_second.iter().enumerate() {
            let bandwidth = requests * BYTES as f64;
            let row = ProfileRow {
                bytes: BYTES,
                read_bytes_per_second: bandwidth,
                write_bytes_per_second: bandwidth,
            };
            let kind = KindLimits { requests: 2, bytes: 2 * BYTES };
            let stored = StoredProfile {
                profile: Profile::new(vec![row]).unwrap(),
                outstanding: DeviceLimits { reads: kind, writes: kind },
                commits: Commits::Singly,
                fingerprint: String::new(),
                uncertainty: 0.0,
                measured_at_micros: 0,
            };
            world.commit(vec![Change::set(format!("{TARGET_PREFIX}osd.{osd}"), encode(&stored))]);
        }
        world
    }

    fn state(&self) -> SloState {
        SloState::of(&self.0).unwrap()
    }

    fn commit(&mut self, changes: Vec<Change>) {
        for change in changes {
            match change {
                Change::Set { key, value } => drop(self.0.entries.insert(key, value)),
                Change::Remove { key } => drop(self.0.entries.remove(&key)),
            }
        }
        self.0.epoch += 1;
    }

    fn admit(&mut self, ask: &Ask<'_>) -> Outcome {
        let (outcome, changes) = decide(&self.state(), ask).unwrap();
        self.commit(changes);
        outcome
    }

    /// Begins and ends a move of gold.
    fn move_gold(&mut self, moved: &MovedTenant) {
        let placement = Placement {
            target: moved.target.to_string(),
            is_complete: false,
            began_at_micros: 7,
            former_promise: self.state().promises.get(&gold()).cloned(),
            pools: vec![],
        };
        self.commit(vec![Change::set(format!("{PLACEMENT_PREFIX}gold"), encode(&placement))]);
        let changes = finish(&self.state(), std::slice::from_ref(moved)).unwrap();
        self.commit(changes);
    }

    /// The targets and rates of a tenant's promise.
    fn flows(&self, tenant: &TenantName) -> Vec<(String, f64)> {
        let state = self.state();
        let flows = state.promises[tenant].flows.iter();
        flows.map(|flow| (flow.target.clone(), flow.curve.least_rate())).collect()
    }
}

fn gold() -> TenantName {
    "gold".parse().unwrap()
}

fn ask(tenant: &str, per_second: f64, spread: Spread) -> Ask<'static> {
    let rate = Rate { kind: IoKind::Write, bytes: BYTES, per_second, burst: 1 };
    Ask {
        tenant: tenant.parse().unwrap(),
        slo_seconds: 0.2,
        violation: None,
        percentile: 99.0,
        traffic: Traffic::Rate(rate, spread),
        client_link: None,
        replaces: false,
    }
}

/// The OSDs 0 and 1 are slow. Web fits only if gold leaves them.
fn gold_and_web() -> (World, MovedTenant, Ask<'static>) {
    let mut world = World::new(&[1000.0, 1000.0, 4000.0]);
    assert!(matches!(world.admit(&ask("gold", 600.0, Spread::Even)), Outcome::Admitted(_)));
    let web = ask("web", 850.0, Spread::Anywhere);
    assert!(matches!(world.admit(&web), Outcome::Refused(_)));
    let may_move = |tenant: &TenantName| *tenant == gold();
    let advice = advise(&world.state(), Some(&web), &BTreeMap::new(), &may_move).unwrap();
    let [advised] = &advice.moves[..] else { panic!("{advice:?}") };
    assert_eq!((advised.tenant.as_str(), advised.to.as_str()), ("gold", "osd.2"));
    let (target, curve) = (TargetName::new(&advised.to).unwrap(), advised.curve.clone());
    (world, MovedTenant { tenant: gold(), target, curve }, web)
}

#[test]
fn a_moved_tenant_has_a_promise_only_for_its_new_target() {
    let (mut world, moved, web) = gold_and_web();
    world.move_gold(&moved);
    let flows = world.flows(&gold());
    assert_eq!(flows.len(), 1);
    // A quarter of what it brought to each of the slow OSDs, and all that it brought to OSD 2.
    assert!(flows[0].0 == "osd.2" && (flows[0].1 - 0.15).abs() < 1e-9, "{flows:?}");
    assert!(matches!(world.admit(&web), Outcome::Admitted(_)));
    assert_eq!(world.flows(&"web".parse().unwrap()).len(), 3);
}

#[test]
fn a_later_promise_to_a_moved_tenant_counts_all_its_requests_at_one_target() {
    let (mut world, moved, _) = gold_and_web();
    world.move_gold(&moved);
    let replaced = Ask { replaces: true, ..ask("gold", 800.0, Spread::Even) };
    let mut others = world.state();
    others.promises.remove(&gold());
    let (outcome, changes) = decide(&others, &replaced).unwrap();
    assert!(matches!(outcome, Outcome::Admitted(_)));
    world.commit(changes);
    assert_eq!(world.flows(&gold()), [("osd.2".to_owned(), 0.2)]);
    // What to go back to is the promise of other traffic.
    let refused = give_back(&world.state(), &gold()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
}

#[test]
fn a_tenant_that_moves_back_gets_its_former_promise() {
    let (mut world, moved, _) = gold_and_web();
    let before = world.flows(&gold());
    world.move_gold(&moved);
    let (placement, changes) = give_back(&world.state(), &gold()).unwrap();
    assert!(placement.is_complete && placement.target == "osd.2");
    world.commit(changes);
    assert_eq!(world.flows(&gold()), before);
    // A return that was interrupted can be repeated.
    assert!(!world.state().placements[&gold()].is_complete);
    give_back(&world.state(), &gold()).unwrap();
}

#[test]
fn a_tenant_does_not_move_back_if_others_have_got_its_room() {
    let (mut world, moved, web) = gold_and_web();
    world.move_gold(&moved);
    assert!(matches!(world.admit(&web), Outcome::Admitted(_)));
    let refused = give_back(&world.state(), &gold()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Exhausted, "{refused}");
    assert!(give_back(&world.state(), &"web".parse().unwrap()).is_err(), "it was not moved");
}

#[test]
fn a_move_ends_only_if_all_promises_can_be_kept_then() {
    let (mut world, moved, _) = gold_and_web();
    // Someone else takes the room of the target meanwhile.
    let other = Ask { slo_seconds: 5.0, ..ask("other", 750.0, Spread::Anywhere) };
    assert!(matches!(world.admit(&other), Outcome::Admitted(_)));
    let curve = moved.curve.plus(&moved.curve).plus(&moved.curve).plus(&moved.curve);
    let curve = curve.plus(&curve);
    let moved = MovedTenant { curve, ..moved };
    let placement = Placement {
        target: moved.target.to_string(),
        is_complete: false,
        began_at_micros: 7,
        former_promise: None,
        pools: vec![],
    };
    assert_eq!(
        finish(&world.state(), std::slice::from_ref(&moved)).unwrap_err().kind(),
        ErrorKind::Conflict
    );
    world.commit(vec![Change::set(format!("{PLACEMENT_PREFIX}gold"), encode(&placement))]);
    let refused = finish(&world.state(), &[moved]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Exhausted, "{refused}");
}

#[test]
fn a_promise_is_refused_if_direct_traffic_leaves_no_room_for_it() {
    let mut world = World::new(&[1000.0]);
    let first = ask("gold", 300.0, Spread::Even);
    let slowed = |load: f64| [(TargetName::new("osd.0").unwrap(), 1.0 / (1.0 - load))].into();
    let (outcome, changes) = decide_beside(&world.state(), &first, &slowed(0.3)).unwrap();
    assert!(matches!(outcome, Outcome::Admitted(_)));
    world.commit(changes);
    assert_eq!(world.flows(&gold()), [("osd.0".to_owned(), 0.3)], "in the measured profile's work");

    let second = ask("silver", 300.0, Spread::Even);
    let (outcome, changes) = decide_beside(&world.state(), &second, &slowed(0.5)).unwrap();
    assert!(matches!(outcome, Outcome::Refused(_)) && changes.is_empty());
    let curves = [(
        TargetName::new("osd.0").unwrap(),
        world.state().promises[&gold()].flows[0].curve.clone(),
    )];
    let watched =
        Ask { traffic: Traffic::Curves(curves.into()), ..ask("silver", 1.0, Spread::Even) };
    let (outcome, _) = decide_beside(&world.state(), &watched, &slowed(0.5)).unwrap();
    assert!(matches!(outcome, Outcome::Refused(_)));
    let (outcome, _) = decide_beside(&world.state(), &second, &slowed(0.2)).unwrap();
    assert!(matches!(outcome, Outcome::Admitted(_)));
}
