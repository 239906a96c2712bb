//! Tests the simulator: its invariants, and the results of shipped policies.

mod common;

use std::fs;
use std::path::PathBuf;

use common::policy;
use nacre_balance::{
    Arrivals, CostModel, Distribution, Inputs, NodeRecord, Operations, Policy, RankGroup, RankLoad,
    Scenario, Simulation, TickRecord, TraceEvent, Unit, UnitGroup, UnitRates, simulate,
};

fn shipped(name: &str) -> Policy {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../programs/balancer");
    let source = fs::read_to_string(folder.join(format!("{name}.lua"))).unwrap();
    Policy::compile(name, 1, &source).unwrap_or_else(|error| panic!("{error}"))
}

fn ranks(count: usize) -> Vec<RankGroup> {
    vec![RankGroup { count, ..RankGroup::default() }]
}

fn units(count: usize, first_rank: Option<usize>) -> Vec<UnitGroup> {
    vec![UnitGroup { count, first_rank, ..UnitGroup::default() }]
}

fn arrivals(per_unit_per_second: f64, distribution: Distribution) -> Operations {
    Operations::Arrivals(Arrivals { per_unit_per_second, reads_share: 0.25, distribution })
}

/// Three sequencers, each of which keeps a rank busy, all on the first of three ranks.
fn hot() -> Scenario {
    Scenario {
        operations: arrivals(10_000.0, Distribution::Uniform),
        duration_seconds: 200.0,
        ..Scenario::default()
    }
}

/// Ten thousand units on one of ten ranks. A few of them get most of the operations.
fn zipf() -> Scenario {
    Scenario {
        ranks: ranks(10),
        units: units(10_000, Some(0)),
        operations: arrivals(0.5, Distribution::Zipf { exponent: 0.9 }),
        duration_seconds: 200.0,
        costs: CostModel { migration_seconds: 1e-3, ..CostModel::default() },
        ..Scenario::default()
    }
}

fn run(scenario: &Scenario, policy: &Policy) -> Simulation {
    simulate(scenario, policy).unwrap_or_else(|error| panic!("{error}"))
}

fn last_throughput(simulation: &Simulation) -> f64 {
    simulation.ticks.last().unwrap().throughput
}

fn assert_conserved(simulation: &Simulation) {
    for tick in &simulation.ticks {
        assert_eq!(tick.units.iter().sum::<usize>(), simulation.units, "tick {}", tick.tick);
    }
    let totals = &simulation.totals;
    let difference = totals.arrived - totals.served - totals.queued;
    assert!(difference.abs() <= 1e-6 * totals.arrived.max(1.0), "{totals:?}");
}

#[test]
fn every_unit_is_on_one_rank_and_every_operation_was_served_or_waits() {
    let crowd = Distribution::FlashCrowd {
        from_seconds: 33.35,
        to_seconds: 71.0,
        units: 5,
        factor: 1000.0,
    };
    let slow = CostModel { migration_seconds: 2.5, ..CostModel::default() };
    let crowded = Scenario {
        units: units(50, None),
        operations: arrivals(30.0, crowd),
        costs: slow,
        ..hot()
    };
    let proxy = policy("mode = 'proxy'\nmetaload = 'IRD + IWR'");
    for (scenario, policy) in [
        (hot(), shipped("sequencers")),
        (zipf(), shipped("greedy_spill_even")),
        (crowded.clone(), shipped("hash")),
        (crowded, proxy),
    ] {
        let simulation = run(&scenario, &policy);
        assert!(simulation.totals.moves > 0, "{}: {:?}", policy.name(), simulation.totals);
        assert_conserved(&simulation);
    }
}

#[test]
fn the_same_seed_gives_the_same_simulation_and_another_seed_another() {
    let policy = shipped("greedy_spill_even");
    let json = |seed: u64| {
        serde_json::to_string(&run(&Scenario { seed, ..zipf() }, &policy).ticks).unwrap()
    };
    assert!(json(7) == json(7));
    assert!(json(7) != json(8));
}

#[test]
fn no_unit_moves_under_the_never_policy() {
    let simulation = run(&hot(), &shipped("never"));
    let totals = &simulation.totals;
    assert_eq!((totals.moves, totals.forwards, totals.thrash, totals.failures), (0, 0.0, 0, 0));
    assert_eq!(totals.final_imbalance, 3.0);
    assert!((last_throughput(&simulation) - 10_000.0).abs() < 1.0, "{totals:?}");
}

#[test]
fn sequencers_spreads_three_hot_units_and_then_leaves_them_alone() {
    let simulation = run(&hot(), &shipped("sequencers"));
    let (first, last) = (&simulation.ticks[0], simulation.ticks.last().unwrap());
    assert_eq!(first.imbalance, 3.0);
    assert!(last.imbalance < 1.01, "{}", last.imbalance);
    let gain = last.throughput / first.throughput;
    assert!((2.95..3.05).contains(&gain), "{gain}");
    assert_eq!(last.units, [1, 1, 1]);
    let totals = &simulation.totals;
    assert_eq!((totals.moves, totals.thrash, totals.late_moves), (2, 0, 0));
    assert!(simulation.ticks[5..].iter().all(|tick| tick.moves == 0));
}

#[test]
fn a_zipf_load_of_many_units_becomes_even() {
    let never = run(&zipf(), &shipped("never")).totals;
    assert_eq!(never.final_imbalance, 10.0);
    let spilled = run(&zipf(), &shipped("greedy_spill_even")).totals;
    assert!(spilled.final_imbalance < 4.0, "{spilled:?}");
    let adapted = run(&zipf(), &shipped("adaptable_aggressive")).totals;
    assert!(adapted.final_imbalance < 1.5, "{adapted:?}");
}

#[test]
fn a_policy_that_fails_is_reported_and_nothing_moves() {
    let source =
        "function when()\n  if whoami == #MDSs then error('no more') end\n  return false\nend";
    let simulation = run(&hot(), &policy(&format!("metaload = 'IWR'\n{source}")));
    let totals = &simulation.totals;
    let decided = simulation.ticks.len() as u64 - 1;
    assert_eq!((totals.moves, totals.failures), (0, decided));
    let failure = &simulation.failures[0];
    assert_eq!((failure.tick, failure.rank), (1, 2));
    assert!(failure.message.contains("no more"), "{}", failure.message);
    assert_conserved(&simulation);
}

#[test]
fn no_rank_decides_at_a_tick_at_which_one_cannot_measure_its_load() {
    let source = "function metaload()\n  if IWR > 0 then error('unmeasured') end\n  return 0\nend\n\
                  function when() error('decided') end";
    // The source passes no check; it only has to compile.
    let simulation = run(&hot(), &policy(source));
    assert!(simulation.failures.iter().all(|failure| failure.rank == 0));
    assert!(simulation.failures.iter().all(|failure| failure.message.contains("unmeasured")));
}

#[test]
fn in_proxy_mode_each_operation_of_a_moved_unit_is_forwarded() {
    let client = run(&hot(), &shipped("sequencers")).totals;
    assert_eq!(client.forwards, 8.0);
    let source = fs::read_to_string(
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../programs/balancer/sequencers.lua"),
    );
    let proxy = run(&hot(), &policy(&format!("mode = 'proxy'\n{}", source.unwrap())));
    assert!(proxy.totals.forwards > 0.5 * proxy.totals.arrived, "{:?}", proxy.totals);
    assert!(last_throughput(&proxy) < 0.9 * 30_000.0, "forwarding takes time of the first rank");
}

#[test]
fn moves_that_do_not_fit_into_a_tick_are_counted_as_late() {
    let costs = CostModel { migration_seconds: 4.0, ..CostModel::default() };
    let scenario = Scenario { units: units(100, Some(0)), costs, ..hot() };
    let simulation = run(&scenario, &shipped("greedy_spill_even"));
    let tick = &simulation.ticks[1];
    assert_eq!((tick.moves, tick.late_moves), (3, 47));
    assert_conserved(&simulation);
}

#[test]
fn a_unit_that_moves_back_and_forth_is_counted_as_thrash() {
    let source = "metaload = 'IRD + IWR'\nwhen = 'if MDSs[whoami][\"auth\"] > 0 then'\n\
                  where = 'targets[whoami % #MDSs + 1] = MDSs[whoami][\"auth\"]'\nhowmuch = {'big'}";
    let scenario = Scenario { ranks: ranks(2), units: units(1, Some(0)), ..hot() };
    let totals = run(&scenario, &policy(source)).totals;
    assert_eq!((totals.moves, totals.thrash), (19, 18));
}

#[test]
fn the_events_of_a_trace_occur_at_their_times() {
    let event = |at_seconds: f64, unit: &str| TraceEvent {
        at_seconds,
        unit: unit.into(),
        reads: 5.0,
        writes: 10.0,
    };
    let trace = vec![event(12.0, "unit.1"), event(3.0, "unit.0"), event(12.0, "unit.2")];
    let scenario = Scenario { operations: Operations::Trace(trace), ..hot() };
    let simulation = run(&scenario, &shipped("never"));
    let throughput: Vec<_> = simulation.ticks[..3].iter().map(|tick| tick.throughput).collect();
    let expected = [1.5, 3.0, 0.0];
    let is_near = throughput.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-9);
    assert!(is_near, "{throughput:?}");
    assert_conserved(&simulation);
}

#[test]
fn a_trace_that_names_an_unknown_unit_is_refused() {
    let trace = vec![TraceEvent { unit: "other".into(), ..TraceEvent::default() }];
    let scenario = Scenario { operations: Operations::Trace(trace), ..hot() };
    let error = simulate(&scenario, &shipped("never")).expect_err("there is no such unit");
    assert!(error.message().contains("other"), "{error}");
}

#[test]
fn an_invalid_scenario_is_refused() {
    type Spoil = fn(&mut Scenario);
    let bad: [(Spoil, &str); 7] = [
        (|scenario| scenario.ranks.clear(), "no rank"),
        (|scenario| scenario.ranks[0].count = 1001, "1001 ranks"),
        (|scenario| scenario.units[0].count = usize::MAX, "units"),
        (|scenario| scenario.units[0].first_rank = Some(3), "rank 3"),
        (|scenario| scenario.tick_seconds = f64::NAN, "tick_seconds"),
        (|scenario| scenario.costs.service_seconds = 0.0, "service_seconds"),
        (
            |scenario| {
                scenario
                    .units
                    .push(UnitGroup { name: "unit.1".into(), ..scenario.units[0].clone() })
            },
            "",
        ),
    ];
    for (spoil, text) in bad {
        let mut scenario = hot();
        spoil(&mut scenario);
        if text.is_empty() {
            scenario.units[1].count = 1;
        }
        let error = simulate(&scenario, &shipped("never")).expect_err(text);
        assert!(error.message().contains(text), "{error}");
    }
}

#[test]
fn a_scenario_in_json_names_only_differences_from_the_default() {
    let text = r#"{"ranks": [{"count": 2}, {"name": "big", "capacity": 4, "labels": {"sequencers": "yes"}}],
        "operations": {"arrivals": {"distribution": {"zipf": {"exponent": 1}}}}}"#;
    let scenario: Scenario = serde_json::from_str(text).unwrap();
    assert_eq!(run(&scenario, &shipped("never")).ranks, ["rank.0", "rank.1", "big"]);
    assert!(serde_json::from_str::<Scenario>(r#"{"rank": []}"#).is_err());
    let again: Scenario = serde_json::from_str(&serde_json::to_string(&scenario).unwrap()).unwrap();
    assert_eq!(again, scenario);
}

#[test]
fn a_simulation_holds_half_a_million_units() {
    let scenario = Scenario {
        ranks: ranks(20),
        units: units(500_000, None),
        operations: arrivals(0.4, Distribution::Zipf { exponent: 0.8 }),
        duration_seconds: 50.0,
        ..Scenario::default()
    };
    let simulation = run(&scenario, &policy("metaload = 'IRD + IWR'"));
    assert_conserved(&simulation);
    assert_eq!(simulation.totals.failures, 0, "{:?}", simulation.failures.first());
}

#[test]
fn a_scenario_of_records_uses_the_rates_of_the_recorded_counters() {
    let record = |tick: u64, whoami: usize, units: Vec<Unit>| NodeRecord {
        node: format!("meta.{whoami}"),
        record: TickRecord {
            tick,
            at_micros: tick * 10_000_000,
            inputs: Inputs {
                whoami,
                ranks: (0..2)
                    .map(|rank| RankLoad { node: format!("meta.{rank}"), ..RankLoad::default() })
                    .collect(),
                unit_loads: vec![1.0; units.len()],
                units,
                ..Inputs::default()
            },
            ..TickRecord::default()
        },
    };
    // A counter of 100 operations a second that halves every five seconds.
    let steady = 100.0 * 5.0 / std::f64::consts::LN_2;
    let unit = |name: &str| Unit {
        name: name.into(),
        rates: UnitRates { iwr: steady, ..UnitRates::default() },
        ..Unit::default()
    };
    let records: Vec<_> = (7..10)
        .flat_map(|tick| [record(tick, 0, vec![unit("a"), unit("b")]), record(tick, 1, vec![])])
        .collect();
    let scenario = Scenario::of_records(&records, CostModel::default()).unwrap();
    let simulation = run(&scenario, &policy("function when() return false end"));
    assert_eq!((simulation.ranks.len(), simulation.units, simulation.ticks.len()), (2, 2, 3));
    let arrived = simulation.totals.arrived;
    assert!((arrived - 2.0 * 100.0 * 30.0).abs() < 1.0, "{arrived}");
    assert!(simulation.ticks.iter().all(|tick| tick.load[1] == 0.0), "{:?}", simulation.ticks);
    assert!(Scenario::of_records(&records[..2], CostModel::default()).is_err());
}
