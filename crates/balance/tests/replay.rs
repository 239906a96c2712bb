//! Replay: recorded ticks under another policy.

mod common;

use common::{decide, policy, tick};
use nacre_balance::{Inputs, NodeRecord, Outcome, Policy, TickRecord, replay};

const ALL_TO_THE_NEXT: &str = "metaload = 'IRD'\n\
    when = 'if MDSs[whoami][\"auth\"] > total/#MDSs then'\n\
    where = 'targets[whoami % #MDSs + 1] = MDSs[whoami][\"auth\"]'\nhowmuch = {'big'}";

/// What two nodes recorded at a tick: the first one is busy.
fn records(number: u64, policy: &Policy, name: &str) -> Vec<NodeRecord> {
    let record = |whoami: usize| {
        let units: &[f64] = if whoami == 0 { &[30.0, 10.0] } else { &[] };
        let mut inputs: Inputs = tick(whoami, &[40.0, 0.0], units);
        inputs.tick = number;
        for (rank, name) in inputs.ranks.iter_mut().zip(["a", "b"]) {
            rank.node = name.into();
        }
        let decision = Some(decide(policy, &inputs));
        let at_micros = number * 10 + whoami as u64;
        let policy = name.to_owned();
        TickRecord { tick: number, at_micros, policy, inputs, decision, ..TickRecord::default() }
    };
    let nodes = ["a", "b"].into_iter().enumerate();
    nodes.map(|(at, node)| NodeRecord { node: node.into(), record: record(at) }).collect()
}

fn named(name: &str, source: &str) -> Policy {
    Policy::compile(name, 1, source).unwrap_or_else(|error| panic!("{error}"))
}

fn moved(outcome: &Outcome) -> Vec<&str> {
    match outcome {
        Outcome::Moves(moves) => moves.iter().map(|moved| moved.unit.as_str()).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_replay_of_the_same_policy_repeats_its_decisions() {
    let policy = policy(ALL_TO_THE_NEXT);
    let replay = replay(&records(1, &policy, "test"), &policy);
    assert_eq!((replay.moves_then, replay.moves_now, replay.skipped), (2, 2, 0));
    assert!(replay.ticks.iter().all(|tick| tick.then == tick.now && tick.is_remeasured));
}

#[test]
fn another_policy_decides_from_the_recorded_inputs() {
    let then = policy("function when() return false end");
    let replay = replay(&records(1, &then, "never"), &policy(ALL_TO_THE_NEXT));
    assert_eq!((replay.moves_then, replay.moves_now), (0, 2));
    assert_eq!(
        (moved(&replay.ticks[0].then).len(), moved(&replay.ticks[0].now)),
        (0, vec!["u1", "u2"])
    );
}

#[test]
fn another_policy_measures_the_loads_itself() {
    let then = policy(ALL_TO_THE_NEXT);
    // This policy counts no reads, so it sees no load.
    let replay =
        replay(&records(1, &then, "test"), &named("other", &ALL_TO_THE_NEXT.replace("IRD", "IWR")));
    assert_eq!((replay.moves_then, replay.moves_now), (2, 0));
    assert!(replay.ticks.iter().all(|tick| tick.is_remeasured));
}

#[test]
fn without_the_record_of_a_rank_the_recorded_loads_are_used() {
    let then = policy(ALL_TO_THE_NEXT);
    let mut records = records(1, &then, "test");
    records.pop();
    let replay = replay(&records, &named("other", &ALL_TO_THE_NEXT.replace("IRD", "IWR")));
    assert!(!replay.ticks[0].is_remeasured);
    assert_eq!(replay.moves_now, 2);
}

/// It decides at every second tick.
const ALTERNATING: &str = "metaload = 'IRD'\n\
    function when()\n  local count = (RDstate() or 0) + 1\n  WRstate(count)\n\
    return count % 2 == 0 and authmetaload > 0\nend\n\
    function where() targets[whoami % #MDSs + 1] = authmetaload end";

#[test]
fn the_state_of_another_policy_goes_from_tick_to_tick_on_each_node() {
    let then = policy("function when() WRstate('mine') return false end");
    let mut all: Vec<_> = (1..=4).flat_map(|number| records(number, &then, "never")).collect();
    for record in &mut all {
        record.record.inputs.state = serde_json::json!("mine").into();
    }
    all.reverse();
    let replay = replay(&all, &policy(ALTERNATING));
    assert_eq!(replay.failures_now, 0, "it never sees the state of the recorded policy");
    let a = replay.ticks.iter().filter(|tick| tick.node == "a");
    let counts: Vec<_> = a.map(|tick| moved(&tick.now).len()).collect();
    assert_eq!(counts, [0, 2, 0, 2]);
}

#[test]
fn a_policy_of_the_recorded_name_gets_the_recorded_state() {
    let policy = named("balancer/alternating", ALTERNATING);
    let mut all: Vec<_> =
        (1..=2).flat_map(|number| records(number, &policy, "alternating")).collect();
    for record in &mut all {
        record.record.inputs.state = serde_json::json!(1).into();
    }
    let replay = replay(&all, &policy);
    let a = replay.ticks.iter().filter(|tick| tick.node == "a");
    let counts: Vec<_> = a.map(|tick| moved(&tick.now).len()).collect();
    assert_eq!(counts, [2, 2]);
}

#[test]
fn an_incomplete_record_is_skipped() {
    let then = policy(ALL_TO_THE_NEXT);
    let mut records = records(1, &then, "test");
    (records[0].record.inputs.units, records[0].record.inputs.unit_loads) = (vec![], vec![]);
    let record =
        TickRecord { tick: 2, failure: Some("no heartbeat".into()), ..TickRecord::default() };
    records.push(NodeRecord { node: "a".into(), record });
    let replay = replay(&records, &then);
    assert_eq!((replay.skipped, replay.moves_now), (2, 0));
    let failed = replay.ticks.iter().find(|tick| tick.tick == 2).unwrap();
    assert_eq!(failed.then, Outcome::Failed("no heartbeat".into()));
}

#[test]
fn a_replay_counts_a_failing_policy_and_continues() {
    let then = policy(ALL_TO_THE_NEXT);
    let source = "metaload = 'IRD'\nfunction when()\n  if whoami == 1 then error('no') end\n  return false\nend";
    let replay = replay(&records(1, &then, "test"), &policy(source));
    assert_eq!((replay.failures_now, replay.moves_now, replay.ticks.len()), (1, 0, 2));
    assert!(matches!(&replay.ticks[0].now, Outcome::Failed(why) if why.contains("no")));
    assert!(matches!(&replay.ticks[1].now, Outcome::Moves(_)));
}
