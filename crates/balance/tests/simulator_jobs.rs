//! Clients of the simulator that do one thing after another and wait.

mod common;

use common::policy;
use nacre_balance::{
    CostModel, Job, JobStep, Operations, RankGroup, Scenario, Simulation, UnitGroup, simulate,
};

const SERVICE_SECONDS: f64 = 1e-3;
/// Sends the second of two units to the second rank.
const SECOND_UNIT: &str = "metaload = 'IWR'\n\
    function when() return whoami == 1 and #units == 2 end\n\
    function where() targets[2] = units[2].load end\n\
    howmuch = { function() return { 2 } end }\n";
const NEVER: &str = "function when() return false end";

/// Clients that write to some units.
fn writers(clients: usize, units: &[&str], writes: f64, think_seconds: f64) -> Operations {
    let units = units.iter().map(|unit| (*unit).to_owned()).collect();
    let step = JobStep { units, writes, think_seconds, ..JobStep::default() };
    Operations::Jobs(vec![Job { steps: vec![step], ..Job::default() }; clients])
}

/// Two units of one directory, `unit.0` and `unit.1`, on the first of two ranks.
fn scenario(operations: Operations) -> Scenario {
    let directory = Some("directory".to_owned());
    Scenario {
        ranks: vec![RankGroup { count: 2, ..RankGroup::default() }],
        units: vec![UnitGroup { count: 2, first_rank: Some(0), directory, ..UnitGroup::default() }],
        operations,
        duration_seconds: 1000.0,
        costs: CostModel { service_seconds: SERVICE_SECONDS, ..CostModel::default() },
        ..Scenario::default()
    }
}

fn run(scenario: &Scenario, source: &str) -> Simulation {
    simulate(scenario, &policy(source)).unwrap_or_else(|error| panic!("{error}"))
}

fn assert_near(value: f64, expected: f64) {
    assert!((value - expected).abs() <= 0.01 * expected, "{value}, not {expected}");
}

#[test]
fn a_client_that_no_rank_slows_down_runs_at_its_own_pace() {
    let totals = run(&scenario(writers(1, &["unit.0"], 5000.0, 0.004)), NEVER).totals;
    assert_near(totals.finished_seconds.unwrap(), 5000.0 * 0.004);
    assert_near(totals.served, 5000.0);
    assert_eq!((totals.sessions, totals.session_flushes, totals.forwards), (1, 0.0, 0.0));
}

#[test]
fn clients_of_an_overloaded_rank_run_at_its_pace() {
    let totals = run(&scenario(writers(4, &["unit.0"], 5000.0, 0.002)), NEVER).totals;
    assert_near(totals.finished_seconds.unwrap(), 4.0 * 5000.0 * SERVICE_SECONDS);
    assert!(totals.queued < 1.0, "clients wait, queues do not grow: {totals:?}");
}

#[test]
fn two_ranks_serve_clients_faster_than_one() {
    let both = writers(4, &["unit.0", "unit.1"], 50_000.0, 0.002);
    let one = run(&scenario(both.clone()), NEVER).totals.finished_seconds.unwrap();
    let two = run(&scenario(both), SECOND_UNIT).totals.finished_seconds.unwrap();
    assert!(one / two > 1.8, "{one} {two}");
}

#[test]
fn a_client_asks_the_former_rank_of_a_unit_once() {
    let totals =
        run(&scenario(writers(3, &["unit.0", "unit.1"], 9000.0, 0.004)), SECOND_UNIT).totals;
    assert_eq!((totals.moves, totals.forwards, totals.sessions), (1, 3.0, 6));
    assert_eq!(totals.session_flushes, 4.0, "by `clients_per_unit`");
}

#[test]
fn a_client_whose_lease_is_over_asks_the_first_rank_of_a_unit_again() {
    let step = |unit: &str| JobStep {
        units: vec![unit.to_owned()],
        writes: 2000.0,
        think_seconds: 0.01,
        ..JobStep::default()
    };
    let steps: Vec<_> = ["unit.0", "unit.1"].repeat(5).into_iter().map(step).collect();
    let mut scenario = scenario(Operations::Jobs(vec![Job { steps, ..Job::default() }]));
    assert_eq!(run(&scenario, SECOND_UNIT).totals.forwards, 1.0);
    scenario.lease_seconds = Some(15.0);
    assert!(run(&scenario, SECOND_UNIT).totals.forwards >= 4.0);
}

#[test]
fn clients_of_a_directory_on_two_ranks_wait_until_the_ranks_agree() {
    let think_seconds = 0.004;
    let mut scenario = scenario(writers(1, &["unit.0", "unit.1"], 100_000.0, think_seconds));
    let alone = run(&scenario, SECOND_UNIT).totals.finished_seconds.unwrap();
    scenario.costs.scatter_gather_seconds = think_seconds;
    // Half of the operations are on the second rank, which has one other to agree with.
    let agreed = run(&scenario, SECOND_UNIT).totals.finished_seconds.unwrap();
    assert!((1.4..1.51).contains(&(agreed / alone)), "{agreed} {alone}");
    scenario.units[0].directory = None;
    let apart = run(&scenario, SECOND_UNIT).totals.finished_seconds.unwrap();
    assert_near(apart, alone);
}

#[test]
fn steps_of_a_job_come_one_after_another() {
    let step = |unit: &str, reads: f64| JobStep {
        units: vec![unit.to_owned()],
        reads,
        think_seconds: 0.01,
        ..JobStep::default()
    };
    let steps = vec![step("unit.1", 1000.0), step("unit.0", 500.0)];
    let job = Job { begins_at_seconds: 10.0, steps };
    let simulation = run(&scenario(Operations::Jobs(vec![job])), NEVER);
    assert_near(simulation.totals.finished_seconds.unwrap(), 25.0);
    assert_eq!(simulation.ticks.len(), 3, "the simulation ends with the last job");
    let throughput: Vec<_> = simulation.ticks.iter().map(|tick| tick.throughput.round()).collect();
    assert_eq!(throughput, [0.0, 100.0, 50.0]);
}

#[test]
fn a_rank_reports_the_cpu_use_of_its_node() {
    let mut scenario = scenario(writers(4, &["unit.0", "unit.1"], 20_000.0, 0.002));
    let above = "metaload = 'IWR'\nfunction when() return whoami == 1 and MDSs[1].cpu > 60 end\n\
        function where() targets[2] = units[1].load end";
    assert!(run(&scenario, above).totals.moves > 0);
    scenario.ranks[0].busy_cpu_percent = 50.0;
    assert_eq!(run(&scenario, above).totals.moves, 0);
}

#[test]
fn invalid_jobs_are_refused() {
    let unknown = scenario(writers(1, &["other"], 1.0, 1.0));
    let idle = scenario(writers(1, &[], 1.0, 1.0));
    let hasty = scenario(writers(1, &["unit.0"], 1.0, 0.0));
    for (scenario, text) in [(unknown, "other"), (idle, "no units"), (hasty, "think_seconds")] {
        let error = simulate(&scenario, &policy(NEVER)).expect_err(text);
        assert!(error.message().contains(text), "{error}");
    }
}
