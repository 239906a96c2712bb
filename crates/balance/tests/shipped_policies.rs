//! The policies of `programs/balancer`: each passes the check, and decides what its comment says.

mod common;

use std::fs;
use std::path::PathBuf;

use common::{clock, decide, moves, rank, tick};
use nacre_balance::{BalancerHook, Decision, Inputs, Policy, RankLoad};
use nacre_registry::Hook;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../programs/balancer")
}

fn source(name: &str) -> String {
    let path = folder().join(format!("{name}.lua"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn shipped(name: &str) -> Policy {
    Policy::compile(name, 1, &source(name)).unwrap_or_else(|error| panic!("{error}"))
}

/// The names of all shipped policies, sorted.
fn names() -> Vec<String> {
    let mut names = vec![];
    for (prefix, folder) in [("", folder()), ("ceph/", folder().join("ceph"))] {
        for entry in fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if let Some(name) = name.strip_suffix(".lua") {
                names.push(format!("{prefix}{name}"));
            }
        }
    }
    names.sort();
    names
}

#[test]
fn the_shipped_policies_pass_the_check_without_warnings() {
    let hook = BalancerHook::new(clock());
    for name in names() {
        let source = source(&name);
        let program = format!("balancer/{}", name.replace('/', "_")).parse().unwrap();
        hook.check(&program, &source).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(hook.suspicions(&source), [], "{name}");
    }
}

#[test]
fn each_shipped_policy_states_its_purpose_and_source() {
    for name in names() {
        let source = source(&name);
        for part in ["\n-- For: ", "-- Not for: ", "\n-- Source: "] {
            let part = part.trim_start_matches('\n');
            assert!(source.contains(part), "{name} lacks {part:?}");
        }
    }
}

/// A busy first rank with four equal units; all other ranks are idle.
fn peak(ranks: usize) -> Inputs {
    let mut loads = vec![0.0; ranks];
    loads[0] = 100.0;
    let mut inputs = tick(0, &loads, &[25.0; 4]);
    inputs.ranks[0] = RankLoad { cpu: 80.0, mem: 30.0, queue: 2.0, requests: 50.0, ..rank(100.0) };
    inputs
}

/// Four ranks, of which the second one has more than the others.
fn slope() -> Inputs {
    let mut inputs = tick(1, &[40.0, 100.0, 20.0, 0.0], &[50.0, 30.0, 20.0]);
    for rank in &mut inputs.ranks {
        rank.cpu = rank.auth / 2.0;
        rank.requests = rank.auth * 10.0;
    }
    inputs
}

/// The last of two ranks is busy.
fn last() -> Inputs {
    let mut inputs = tick(1, &[0.0, 100.0], &[60.0, 40.0]);
    inputs.ranks[1].cpu = 90.0;
    inputs
}

#[test]
fn each_shipped_policy_decides_as_pinned() {
    // For each policy: a peak on three ranks, a slope, a busy last rank.
    let expected = [
        ("adaptable_aggressive", ["u1>1 u2>1 u3>2", "u3>2 u1>3", "u1>0"]),
        ("adaptable_conservative", ["", "", ""]),
        ("adaptable_too_aggressive", ["u1>1 u2>1 u3>2", "u3>2 u1>3", "u1>0"]),
        ("ceph/fill_and_spill", ["", "", ""]),
        ("ceph/greedy_spill", ["u1>1 u2>1", "", ""]),
        ("cephfs_cpu", ["u1>1 u2>1 u3>2 u4>2", "u1>3", "u1>0"]),
        ("cephfs_hybrid", ["u1>1 u2>1 u3>2 u4>2", "u1>2 u2>2 u3>2", "u1>0"]),
        ("cephfs_workload", ["u1>1 u2>1 u3>2 u4>2", "u1>3", ""]),
        ("fill_and_spill", ["u1>1", "", ""]),
        ("greedy_spill", ["u1>1 u2>1", "", ""]),
        ("greedy_spill_even", ["u1>1 u2>1", "", ""]),
        ("hash", ["u1>1 u4>1 u2>2", "u2>0 u1>3", "u2>0"]),
        ("never", ["", "", ""]),
        ("sequencers", ["u1>1 u2>2", "u3>2 u1>3", "u1>0"]),
    ];
    let ticks = [peak(3), slope(), last()];
    let names = names();
    assert_eq!(names, expected.map(|(name, _)| name));
    let mut wrong = vec![];
    for (name, expected) in expected {
        let policy = shipped(name);
        let found = ticks.each_ref().map(|tick| moves(&decide(&policy, tick)));
        if found != expected {
            wrong.push(format!("{name}: {found:?}, expected {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_hybrid_policy_decides_as_an_empty_policy() {
    let (hybrid, nothing) = (shipped("cephfs_hybrid"), common::policy("-- nothing"));
    for inputs in [peak(2), peak(5), slope(), last()] {
        assert_eq!(decide(&hybrid, &inputs), decide(&nothing, &inputs));
    }
}

/// A cluster in which every rank decides at each tick, from the heartbeats of that tick. The units
/// move when all ranks have decided.
struct Cluster {
    /// The sequencers of each rank.
    ranks: Vec<Vec<(String, f64)>>,
    states: Vec<nacre_balance::State>,
    moved: usize,
}

impl Cluster {
    fn new(ranks: usize, sequencers: &[f64]) -> Self {
        let named = |(at, load): (usize, &f64)| (format!("s{at}"), *load);
        let mut all = vec![vec![]; ranks];
        all[0] = sequencers.iter().enumerate().map(named).collect();
        Self { ranks: all, states: vec![Default::default(); ranks], moved: 0 }
    }

    fn loads(&self) -> Vec<f64> {
        self.ranks.iter().map(|units| units.iter().map(|unit| unit.1).sum()).collect()
    }

    fn tick(&mut self, policy: &Policy) {
        let loads = self.loads();
        let mut decisions: Vec<Decision> = vec![];
        for (whoami, units) in self.ranks.iter().enumerate() {
            let unit_loads: Vec<_> = units.iter().map(|unit| unit.1).collect();
            let mut inputs = tick(whoami, &loads, &unit_loads);
            for (unit, (name, _)) in inputs.units.iter_mut().zip(units) {
                unit.name.clone_from(name);
            }
            inputs.state = self.states[whoami].clone();
            decisions.push(decide(policy, &inputs));
        }
        for (whoami, decision) in decisions.into_iter().enumerate() {
            self.states[whoami] = decision.state;
            for moved in decision.moves {
                let at = self.ranks[whoami].iter().position(|unit| unit.0 == moved.unit).unwrap();
                let unit = self.ranks[whoami].remove(at);
                self.ranks[moved.to].push(unit);
                self.moved += 1;
            }
        }
    }
}

#[test]
fn sequencers_are_spread_over_the_ranks_and_then_stay() {
    let policy = shipped("sequencers");
    for (ranks, sequencers, most) in [
        (3, vec![1000.0; 3], 1000.0),
        (2, vec![1000.0], 1000.0),
        (2, vec![1000.0; 3], 2000.0),
        (4, vec![900.0, 100.0, 500.0, 400.0, 300.0, 800.0], 900.0),
        (3, vec![5000.0, 10.0, 10.0], 5000.0),
        (8, (1..=40).map(|at| f64::from(at) * 25.0).collect(), 2700.0),
    ] {
        let mut cluster = Cluster::new(ranks, &sequencers);
        for _ in 0..80 {
            cluster.tick(&policy);
        }
        let (moved, loads) = (cluster.moved, cluster.loads());
        assert!(loads.iter().all(|load| *load <= most), "{loads:?}");
        assert!(moved <= sequencers.len() + ranks, "{moved} moves of {} units", sequencers.len());
        for _ in 0..40 {
            cluster.tick(&policy);
        }
        assert_eq!(cluster.moved, moved, "the cluster goes on moving");
    }
}

#[test]
fn sequencers_move_in_halves_if_configured_and_pause_after_each_move() {
    let source = source("sequencers").replace(r#"MIGRATION = "full""#, r#"MIGRATION = "half""#);
    let policy = Policy::compile("half", 1, &source).unwrap();
    let mut cluster = Cluster::new(3, &[1000.0; 3]);
    let mut moved = vec![];
    for _ in 0..6 {
        cluster.tick(&policy);
        moved.push(cluster.moved);
    }
    assert_eq!(moved, [1, 1, 1, 1, 2, 2]);
    assert_eq!(cluster.loads(), [1000.0; 3]);
}

#[test]
fn sequencers_move_to_labelled_nodes_and_by_capacity() {
    let policy = shipped("sequencers");
    let mut inputs = tick(0, &[1000.0, 0.0, 0.0], &[500.0, 500.0]);
    inputs.ranks[2].labels.insert("sequencers".into(), "yes".into());
    inputs.units[1].kind = "directory".into();
    assert_eq!(moves(&decide(&policy, &inputs)), "u1>2");
    let mut inputs = tick(0, &[900.0, 0.0, 0.0], &[300.0; 3]);
    inputs.ranks[2].capacity = 4.0;
    assert_eq!(moves(&decide(&policy, &inputs)), "u1>2 u2>2");
}

#[test]
fn the_hash_policy_moves_each_unit_to_its_rank_once() {
    let policy = shipped("hash");
    let mut cluster = Cluster::new(4, &[10.0; 200]);
    cluster.tick(&policy);
    let moved = cluster.moved;
    assert!(cluster.ranks.iter().all(|units| (30..70).contains(&units.len())));
    for _ in 0..5 {
        cluster.tick(&policy);
    }
    assert_eq!(cluster.moved, moved);
}

#[test]
fn one_busy_unit_does_not_go_from_rank_to_rank() {
    for name in names() {
        let mut cluster = Cluster::new(3, &[5000.0]);
        let policy = shipped(&name);
        for _ in 0..20 {
            cluster.tick(&policy);
        }
        assert!(cluster.moved <= 1, "{name} moved it {} times", cluster.moved);
    }
}

#[test]
fn greedy_spill_even_sends_load_to_the_idle_rank_in_the_middle() {
    let policy = shipped("greedy_spill_even");
    let target = |whoami: usize, loads: &[f64]| {
        let targets = decide(&policy, &tick(whoami, loads, &[1.0])).targets;
        targets.iter().position(|target| *target > 0.0)
    };
    assert_eq!(target(0, &[8.0, 0.0, 0.0, 0.0]), Some(2));
    assert_eq!(target(0, &[4.0, 0.0, 4.0, 0.0]), Some(1));
    assert_eq!(target(2, &[4.0, 0.0, 4.0, 0.0]), Some(3));
    assert_eq!(target(0, &[2.0, 2.0, 4.0, 0.0]), None);
    assert_eq!(target(3, &[2.0, 2.0, 2.0, 2.0]), None);
}

#[test]
fn fill_and_spill_for_ceph_sends_a_quarter_once_requests_are_many_and_its_neighbour_is_idle() {
    let policy = shipped("ceph/fill_and_spill");
    let sent = |requests: f64, neighbour: f64| {
        let mut inputs = tick(0, &[100.0, neighbour, 0.0], &[25.0; 4]);
        inputs.ranks[0].requests = requests;
        decide(&policy, &inputs).targets
    };
    assert_eq!(sent(1500.0, 0.0), [0.0, 25.0, 0.0]);
    for (requests, neighbour) in [(500.0, 0.0), (1500.0, 10.0)] {
        assert!(sent(requests, neighbour).iter().all(|target| *target == 0.0));
    }
}

#[test]
fn fill_and_spill_waits_after_each_migration() {
    let policy = shipped("fill_and_spill");
    let mut inputs = peak(2);
    let mut due = vec![];
    for cpu in [10.0, 80.0, 80.0, 80.0, 80.0, 80.0, 80.0] {
        inputs.ranks[0].cpu = cpu;
        let decision = decide(&policy, &inputs);
        inputs.state = decision.state;
        due.push(decision.is_due);
    }
    // Overload must last for three ticks, before the first migration and after each.
    assert_eq!(due, [false, false, false, true, false, false, true]);
}

#[test]
fn the_conservative_policy_keeps_everything_below_its_minimum() {
    let policy = shipped("adaptable_conservative");
    assert!(!decide(&policy, &tick(0, &[900.0, 0.0], &[450.0; 2])).is_due);
    assert!(decide(&policy, &tick(0, &[1100.0, 0.0], &[550.0; 2])).is_due);
}
