//! Figures 4, 5, 7 and 8 of the Mantle paper: clients that create files.

use nacre_balance::Simulation;
use nacre_object::Result;

use super::figure::Computed;
use super::report::Finding;
use super::trial::{MakeWorkload, SEEDS, Trial, deviation_of, median_of, seconds};
use crate::figure_chart::FigureChart;
use crate::policies::{FILL, FILL_A_TENTH, GREEDY, GREEDY_EVEN, HYBRID, NEVER, PolicyPlan};
use crate::workloads::{CREATE_SECONDS, dealt_out, separate_directories, shared_directory};

/// Clients that create files in one directory.
const CLIENTS: usize = 4;
/// The clients that repeat one job, and the ranks that serve them.
const SAME_JOB_CLIENTS: usize = 6;
const SAME_JOB_RANKS: usize = 3;
/// The most clients of one rank.
const MOST_CLIENTS: usize = 7;

/// The policies of the Mantle paper's figure 8. Each has its number of ranks, and two values of the
/// paper: the speedup in percent and the number of session flushes.
const SPEEDUPS: [(PolicyPlan, usize, Option<f64>, Option<f64>); 6] = [
    (GREEDY, 2, Some(10.0), Some(323.0)),
    (GREEDY, 3, Some(-5.0), Some(458.0)),
    (GREEDY, 4, Some(-20.0), Some(788.0)),
    (GREEDY_EVEN, 4, Some(-40.0), Some(936.0)),
    (FILL, 4, Some(6.0), None),
    (FILL_A_TENTH, 4, None, None),
];

/// Figure 4: the same job, run after run.
pub(super) fn same_job(workload: MakeWorkload<'_>) -> Result<Computed> {
    fn trial<'a>(policy: PolicyPlan, workload: MakeWorkload<'a>) -> Trial<'a> {
        Trial { policy, ranks: SAME_JOB_RANKS, workload, clients: SAME_JOB_CLIENTS }
    }
    let even = |clients, seed| dealt_out(workload(clients, seed));
    let even = trial(NEVER, &even).run()?;
    let balanced = trial(HYBRID, workload).run()?;
    let mut chart = FigureChart::new(
        "throughput",
        "Six clients in separate directories, on three ranks",
        ("seconds", "operations a second", "run"),
    );
    push_throughput(&mut chart, &even[0], "even from the start");
    for (seed, simulation) in SEEDS.iter().zip(&balanced) {
        push_throughput(&mut chart, simulation, &format!("cephfs_hybrid, seed {seed}"));
    }
    let times: Vec<_> = balanced.iter().map(seconds).collect();
    let longest = times.iter().copied().fold(0.0, f64::max);
    let shortest = times.iter().copied().fold(f64::INFINITY, f64::min);
    let findings = vec![
        Finding::new("the slowest run beside the fastest", "times", 2.0, longest / shortest),
        Finding::new(
            "cephfs_hybrid beside load that is even from the start",
            "times as long",
            None,
            median_of(&balanced, seconds) / median_of(&even, seconds),
        ),
    ];
    Ok(Computed::mantle(findings, vec![chart]))
}

/// Figure 5: more and more clients of one rank.
pub(super) fn one_rank() -> Result<Computed> {
    let mut throughput = FigureChart::new(
        "throughput",
        "One rank, clients that create files",
        ("clients", "creates a second", "rank"),
    );
    let mut latency = FigureChart::new(
        "latency",
        "One rank, clients that create files",
        ("clients", "microseconds a create", "rank"),
    );
    let mut all = vec![];
    for clients in 1..=MOST_CLIENTS {
        let trial = Trial { policy: NEVER, ranks: 1, workload: &separate_directories, clients };
        let runs = trial.run()?;
        // Clients that wait: each has one create in flight.
        let rate = |run: &Simulation| run.totals.served / seconds(run);
        let micros = |run: &Simulation| 1e6 * clients as f64 / rate(run);
        for run in &runs {
            throughput.push(clients, rate(run), "one rank");
            latency.push(clients, micros(run), "one rank");
        }
        all.push((median_of(&runs, rate), median_of(&runs, micros), deviation_of(&runs, micros)));
    }
    let (four, seven) = (all[3], all[MOST_CLIENTS - 1]);
    let busy = all.iter().position(|(rate, ..)| *rate >= 0.99 * seven.0).unwrap_or(0) + 1;
    let findings = vec![
        Finding::new("throughput stops growing with", "clients", 5.0, busy as f64),
        Finding::new("throughput of 7 clients beside 4", "times", 1.0, seven.0 / four.0),
        Finding::new("latency of 7 clients beside 4", "times", None, seven.1 / four.1),
        Finding::new("deviation of latency, 7 clients beside 3", "times", 3.0, seven.2 / all[2].2),
        Finding::new("a create of one client", "microseconds", None, 1e6 * CREATE_SECONDS),
    ];
    Ok(Computed::mantle(findings, vec![throughput, latency]))
}

/// Figure 7: the load of each rank over time.
pub(super) fn over_time() -> Result<Computed> {
    let mut charts = vec![];
    let mut findings = vec![];
    let shares = [
        ("uneven", GREEDY, Some(50.0)),
        ("even", GREEDY_EVEN, Some(25.0)),
        ("fill-and-spill", FILL, None),
    ];
    for (name, policy, paper) in shares {
        let runs =
            Trial { policy, ranks: 4, workload: &shared_directory, clients: CLIENTS }.run()?;
        let title = format!("Four clients create files in one directory, {}", policy.name);
        let mut chart = FigureChart::new(name, &title, ("seconds", "creates a second", "rank"));
        for tick in &runs[0].ticks {
            for (rank, load) in tick.load.iter().enumerate() {
                chart.push(tick.at_seconds, *load, &format!("rank {rank}"));
            }
        }
        charts.push(chart);
        let before = |what: &str| format!("{}: {what}", policy.name);
        let share = median_of(&runs, first_share);
        findings.push(Finding::new(before("share of the first rank"), "%", paper, 100.0 * share));
        let used = median_of(&runs, used_ranks);
        let paper = if name == "fill-and-spill" { 2.0 } else { 4.0 };
        findings.push(Finding::new(before("ranks with load"), "ranks", paper, used));
    }
    Ok(Computed::mantle(findings, charts))
}

/// Figure 8: how much faster clients are done than with one rank.
pub(super) fn speedup() -> Result<Computed> {
    let trial =
        |policy, ranks| Trial { policy, ranks, workload: &shared_directory, clients: CLIENTS };
    let alone = trial(NEVER, 1).run()?;
    let mut speedup = FigureChart::new(
        "speedup",
        "Speedup over one rank, four clients that create files in one directory",
        ("policy and ranks", "times as fast as one rank", "clients"),
    );
    let mut flushes = FigureChart::new(
        "session-flushes",
        "Sessions that migrations flush",
        ("policy and ranks", "session flushes", "clients"),
    );
    let mut findings = vec![];
    for (policy, ranks, gain, sessions) in SPEEDUPS {
        let runs = trial(policy, ranks).run()?;
        let bar = format!("{}, {ranks}", policy.short);
        for (run, one) in runs.iter().zip(&alone) {
            speedup.push(bar.clone(), seconds(one) / seconds(run), "4 clients");
            flushes.push(bar.clone(), run.totals.session_flushes, "4 clients");
        }
        let gained = 100.0 * (median_of(&alone, seconds) / median_of(&runs, seconds) - 1.0);
        let of = |what: &str| format!("{}, {ranks} ranks: {what}", policy.name);
        findings.push(Finding::new(of("gain over one rank"), "%", gain, gained));
        let flushed = median_of(&runs, |run| run.totals.session_flushes);
        findings.push(Finding::new(of("session flushes"), "sessions", sessions, flushed));
        findings.push(Finding::new(
            of("deviation of the time"),
            "s",
            None,
            deviation_of(&runs, seconds),
        ));
    }
    let deviation = deviation_of(&alone, seconds);
    findings.push(Finding::new("one rank: deviation of the time", "s", None, deviation));
    Ok(Computed::mantle(findings, vec![speedup, flushes]))
}

/// Operations that all ranks served, tick by tick.
pub(super) fn push_throughput(chart: &mut FigureChart, simulation: &Simulation, name: &str) {
    for tick in &simulation.ticks {
        chart.push(tick.at_seconds, tick.throughput, name);
    }
}

/// The first rank's share of the load in the second-last tick. In the last tick clients finish, so
/// it does not count.
fn first_share(simulation: &Simulation) -> f64 {
    let tick = &simulation.ticks[simulation.ticks.len() - 2];
    tick.load[0] / tick.load.iter().sum::<f64>()
}

fn used_ranks(simulation: &Simulation) -> f64 {
    let tick = &simulation.ticks[simulation.ticks.len() - 2];
    tick.load.iter().filter(|load| **load > 0.0).count() as f64
}
