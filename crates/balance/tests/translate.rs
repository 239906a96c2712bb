//! Tests that a translated policy makes the same decisions in Ceph's dialect as in the dialect of
//! the Mantle paper.

use std::sync::Arc;

use nacre_balance::{Dialect, Inputs, Policy, RankLoad, Unit, translate};
use nacre_clock::{Clock, ManualClock, Random};

/// The shipped policies that keep nothing between ticks.
const STATELESS: [(&str, &str); 6] = [
    ("greedy_spill", include_str!("../../../programs/balancer/greedy_spill.lua")),
    ("greedy_spill_even", include_str!("../../../programs/balancer/greedy_spill_even.lua")),
    ("cephfs_cpu", include_str!("../../../programs/balancer/cephfs_cpu.lua")),
    ("cephfs_workload", include_str!("../../../programs/balancer/cephfs_workload.lua")),
    ("cephfs_hybrid", include_str!("../../../programs/balancer/cephfs_hybrid.lua")),
    ("never", include_str!("../../../programs/balancer/never.lua")),
];
const FILL_AND_SPILL: &str = include_str!("../../../programs/balancer/fill_and_spill.lua");

/// Ticks on which each policy decides in both dialects.
const TICKS: u64 = 200;

fn inputs(random: &mut Random) -> Inputs {
    let ranks = 1 + random.below(6) as usize;
    let rank = |_| {
        // Idle ranks are what some policies look for.
        let mut number = || if random.below(3) == 0 { 0.0 } else { random.below(1000) as f64 };
        let (auth, shared) = (number(), number());
        RankLoad {
            auth,
            all: auth + shared,
            cpu: number() / 10.0,
            queue: number(),
            requests: number(),
            ..RankLoad::default()
        }
    };
    let ranks: Vec<_> = (0..ranks).map(rank).collect();
    let whoami = random.below(ranks.len() as u64) as usize;
    let unit_loads = vec![ranks[whoami].auth];
    let units = vec![Unit { name: "the only unit".into(), ..Unit::default() }];
    Inputs { whoami, ranks, units, unit_loads, ..Inputs::default() }
}

#[test]
fn a_translated_policy_decides_as_the_policy_does() {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
    let mut sent = 0;
    for (name, source) in STATELESS {
        let policy = Policy::compile(name, 1, source).unwrap();
        let translation = translate(name, 1, source).unwrap();
        let translated = Policy::compile(name, 1, &translation.source)
            .unwrap_or_else(|error| panic!("{error}: {}", translation.source));
        assert_eq!(translated.dialect(), Dialect::Ceph);
        let mut random = Random::seeded(1);
        for tick in 0..TICKS {
            let inputs = inputs(&mut random);
            let [ours, cephs] = [&policy, &translated].map(|it| it.decide(&inputs, &clock));
            let (ours, cephs) = (ours.unwrap(), cephs.unwrap());
            assert_eq!(ours.targets, cephs.targets, "{name}, tick {tick}: {inputs:?}");
            sent += usize::from(ours.targets.iter().any(|target| *target > 0.0));
        }
    }
    assert!(sent > 100, "the policies sent load at {sent} ticks");
}

#[test]
fn a_translation_lists_what_the_policy_loses() {
    let losses = |source: &str| translate("p", 1, source).unwrap().losses.join("\n");
    let told = losses(FILL_AND_SPILL);
    for lost in ["metaload: ", "howmuch: ", "state: "] {
        assert!(told.contains(lost), "{told}");
    }
    assert_eq!(losses(STATELESS[4].1), "", "the original policy is CephFS's own");
    assert!(losses("mode = 'proxy'").starts_with("mode: "));
    assert!(losses("function placement() return true end").starts_with("placement: "));
    assert!(losses("function mdsload(i) return MDSs[i].mem end").starts_with("mem, "));
    assert_eq!(losses("-- no labels\nwhen = [[if false then]]"), "");
}

#[test]
fn an_entry_for_the_own_rank_voids_all_entries_and_an_unknown_rank_is_a_fault() {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
    let ranks = vec![RankLoad { auth: 5.0, all: 5.0, ..RankLoad::default() }; 2];
    let inputs = Inputs { ranks, ..Inputs::default() };
    let decide = |where_: &str| {
        let source = format!("when = 'if true then'\nwhere = '{where_}'");
        let translation = translate("p", 1, &source).unwrap();
        Policy::compile("p", 1, &translation.source).unwrap().decide(&inputs, &clock)
    };
    assert_eq!(decide("targets[2] = 3").unwrap().targets, [0.0, 3.0]);
    assert_eq!(decide("targets[2] = 3 targets[1] = 0").unwrap().targets, [0.0, 0.0]);
    let error = decide("targets[3] = 3").unwrap_err();
    assert!(error.to_string().contains("there is no such rank"), "{error}");
}

#[test]
fn a_policy_in_cephs_dialect_stays_as_it_is() {
    let source = include_str!("../../../programs/balancer/ceph/greedy_spill.lua");
    let translation = translate("greedy_spill", 1, source).unwrap();
    assert_eq!((translation.source.as_str(), translation.losses), (source, vec![]));
}
