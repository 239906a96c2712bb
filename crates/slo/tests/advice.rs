//! Tests of placement advice: which tenants to move so that all promises can be kept.

use std::collections::BTreeMap;

use nacre_object::TargetName;
use nacre_qos::scheduler::{Commits, DeviceLimits, KindLimits};
use nacre_qos::{ArrivalCurve, IoKind, Profile, ProfileRow, RateBurst};
use nacre_slo::{
    Ask, Promise, PromisedFlow, Rate, SloState, Spread, StoredProfile, Traffic, advise,
    placement_epoch,
};

const BYTES: u64 = 4096;

fn target(number: usize) -> TargetName {
    format!("storage.{number}").parse().unwrap()
}

/// Targets that each do this many requests a second.
fn state(requests_per_second: &[f64]) -> SloState {
    let profile = |(number, requests): (usize, &f64)| {
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
        (target(number), stored)
    };
    let profiles = requests_per_second.iter().enumerate().map(profile).collect();
    SloState { profiles, ..SloState::default() }
}

/// Promises a tenant a latency for its requests at some targets.
fn promise(state: &mut SloState, tenant: &str, slo_seconds: f64, flows: &[(usize, f64, f64)]) {
    let flow = |(number, rate, burst_seconds): &(usize, f64, f64)| {
        let bucket = RateBurst { rate: *rate, burst_seconds: *burst_seconds };
        let curve = ArrivalCurve::lower_envelope(&[bucket]).unwrap();
        PromisedFlow { target: target(*number).to_string(), curve, bucket }
    };
    let promise = Promise {
        slo_seconds,
        violation: None,
        percentile: 99.0,
        bound_seconds: slo_seconds,
        priority: 0,
        placement_epoch: placement_epoch(state.profiles.keys()),
        profile_epoch: None,
        client_link_bytes_per_second: None,
        flows: flows.iter().map(flow).collect(),
        traffic: String::new(),
    };
    state.promises.insert(tenant.parse().unwrap(), promise);
}

#[test]
fn no_tenant_is_moved_while_all_tenants_fit() {
    let mut state = state(&[1000.0, 1000.0]);
    promise(&mut state, "gold", 0.1, &[(0, 0.3, 0.01)]);
    promise(&mut state, "silver", 0.2, &[(1, 0.3, 0.01)]);
    let advice = advise(&state, None, &BTreeMap::new(), &|_| true).unwrap();
    assert!(advice.is_solved && advice.moves.is_empty() && advice.left_out.is_empty());
    for tenant in &advice.tenants {
        assert!(tenant.bound_seconds.unwrap() <= tenant.slo_seconds, "{tenant:?}");
        assert_eq!(tenant.bound_seconds, tenant.bound_seconds_after);
    }
}

#[test]
fn a_tenant_leaves_a_target_that_has_become_too_slow() {
    let mut state = state(&[1000.0, 1000.0]);
    promise(&mut state, "gold", 0.1, &[(0, 0.4, 0.01)]);
    promise(&mut state, "silver", 0.2, &[(0, 0.3, 0.01)]);
    let slow = [(target(0), 2.0)].into();
    let advice = advise(&state, None, &slow, &|_| true).unwrap();
    assert_eq!(advice.left_out, ["silver"]);
    let [done] = &advice.moves[..] else { panic!("{advice:?}") };
    assert_eq!((done.tenant.as_str(), done.to.as_str()), ("silver", "storage.1"));
    assert!(advice.is_solved);
    let silver = advice.tenants.iter().find(|tenant| tenant.tenant == "silver").unwrap();
    assert_eq!(silver.bound_seconds, None);
    assert!(silver.bound_seconds_after.unwrap() <= 0.2, "{silver:?}");
    let load = |number: usize| (advice.targets[number].load, advice.targets[number].load_after);
    assert!((load(0).0 - 1.4).abs() < 1e-9 && (load(0).1 - 0.8).abs() < 1e-9, "{:?}", load(0));
    assert!((load(1).1 - 0.3).abs() < 1e-9, "{:?}", load(1));
}

#[test]
fn a_refused_newcomer_fits_if_all_its_objects_are_on_the_faster_target() {
    let mut state = state(&[1000.0, 4000.0]);
    promise(&mut state, "gold", 0.1, &[(0, 0.6, 0.01)]);
    // The newcomer's many objects need half of each target. The slower target has no room for that.
    let rate = Rate { kind: IoKind::Write, bytes: BYTES, per_second: 1000.0, burst: 4 };
    let ask = Ask {
        tenant: "newcomer".parse().unwrap(),
        slo_seconds: 0.2,
        violation: None,
        percentile: 99.0,
        traffic: Traffic::Rate(rate, Spread::Even),
        client_link: None,
        replaces: false,
    };
    let advice = advise(&state, Some(&ask), &BTreeMap::new(), &|_| true).unwrap();
    assert_eq!(advice.left_out, ["newcomer"]);
    assert!(advice.is_solved, "{advice:?}");
    let [done] = &advice.moves[..] else { panic!("{advice:?}") };
    assert_eq!((done.tenant.as_str(), done.to.as_str()), ("newcomer", "storage.1"));
    // The thousand requests a second of the newcomer take at most half of the time of this target,
    // which is four times as fast.
    assert!(advice.targets[1].load_after <= 0.625 + 1e-9, "{advice:?}");
}

#[test]
fn no_move_is_proposed_if_some_tenant_would_still_not_fit() {
    let mut state = state(&[1000.0, 1000.0]);
    promise(&mut state, "gold", 0.1, &[(0, 0.7, 0.01)]);
    promise(&mut state, "silver", 0.2, &[(1, 0.7, 0.01)]);
    promise(&mut state, "bronze", 0.4, &[(1, 0.7, 0.01)]);
    let advice = advise(&state, None, &BTreeMap::new(), &|_| true).unwrap();
    assert!(!advice.is_solved && advice.moves.is_empty());
    assert_eq!(advice.left_out, ["bronze"]);
}
