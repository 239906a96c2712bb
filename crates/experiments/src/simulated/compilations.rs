//! Figures 3, 9 and 10 of the Mantle paper: clients that compile the Linux source.

use nacre_balance::Simulation;
use nacre_object::Result;

use super::creates::push_throughput;
use super::figure::Computed;
use super::report::Finding;
use super::trial::{MakeWorkload, Trial, deviation_of, median_of, seconds};
use crate::figure_chart::FigureChart;
use crate::policies::{AGGRESSIVE, CONSERVATIVE, HASH, NEVER, PolicyPlan, TOO_AGGRESSIVE};

/// Ranks of figure 3.
const LOCALITY_RANKS: usize = 3;
/// Ranks, and clients, of figure 10.
const MOST: usize = 5;

fn trial(
    workload: MakeWorkload<'_>,
    policy: PolicyPlan,
    ranks: usize,
    clients: usize,
) -> Trial<'_> {
    Trial { policy, ranks, workload, clients }
}

/// Figure 3: requests of one compilation, kept on one rank or distributed.
pub(super) fn locality(workload: MakeWorkload<'_>) -> Result<Computed> {
    let mut forwards = FigureChart::new(
        "forwards",
        "One client compiles, on three ranks",
        ("distribution", "forwarded requests", "client"),
    );
    let mut times = FigureChart::new(
        "seconds",
        "One client compiles, on three ranks",
        ("distribution", "seconds", "client"),
    );
    let mut findings = vec![];
    for policy in [NEVER, HASH, AGGRESSIVE, TOO_AGGRESSIVE] {
        let runs = trial(workload, policy, LOCALITY_RANKS, 1).run()?;
        for run in &runs {
            forwards.push(policy.short, run.totals.forwards, "one client");
            times.push(policy.short, seconds(run), "one client");
        }
        let of = |what: &str| format!("{}: {what}", policy.name);
        let forwarded = median_of(&runs, |run| run.totals.forwards);
        let requests = median_of(&runs, |run| run.totals.served + run.totals.forwards);
        findings.push(Finding::new(of("forwarded requests"), "requests", None, forwarded));
        findings.push(Finding::new(of("all requests"), "requests", None, requests));
        findings.push(Finding::new(of("time"), "s", None, median_of(&runs, seconds)));
    }
    Ok(Computed::mantle(findings, vec![forwards, times]))
}

/// Figure 9: how much faster three and five clients finish than with one rank.
pub(super) fn speedup(workload: MakeWorkload<'_>) -> Result<Computed> {
    let mut chart = FigureChart::new(
        "speedup",
        "Speedup over one rank by adaptable_aggressive, clients that compile",
        ("ranks", "times as fast as one rank", "clients"),
    );
    let mut findings = vec![];
    for clients in [3, MOST] {
        let alone = trial(workload, NEVER, 1, clients).run()?;
        for ranks in 2..=MOST {
            let runs = trial(workload, AGGRESSIVE, ranks, clients).run()?;
            for (run, one) in runs.iter().zip(&alone) {
                let speedup = seconds(one) / seconds(run);
                chart.push(format!("{ranks} ranks"), speedup, &format!("{clients} clients"));
            }
            let gained = 100.0 * (median_of(&alone, seconds) / median_of(&runs, seconds) - 1.0);
            let finding = format!("{clients} clients, {ranks} ranks: gain over one rank");
            findings.push(Finding::new(finding, "%", None, gained));
        }
    }
    Ok(Computed::mantle(findings, vec![chart]))
}

/// Figure 10: policies that are more and more aggressive.
pub(super) fn flash_crowd(workload: MakeWorkload<'_>) -> Result<Computed> {
    let mut throughput = FigureChart::new(
        "throughput",
        "Five clients compile, and link at the end",
        ("seconds", "operations a second", "policy"),
    );
    let mut forwards = FigureChart::new(
        "forwards",
        "Five clients compile on five ranks",
        ("policy", "forwarded requests", "clients"),
    );
    let alone = trial(workload, NEVER, 1, MOST).run()?;
    push_throughput(&mut throughput, &alone[0], "one rank");
    let mut findings = vec![];
    let mut forwarded = vec![];
    for policy in [CONSERVATIVE, AGGRESSIVE, TOO_AGGRESSIVE] {
        let runs = trial(workload, policy, MOST, MOST).run()?;
        push_throughput(&mut throughput, &runs[0], policy.name);
        for run in &runs {
            forwards.push(policy.short, run.totals.forwards, "5 clients");
        }
        let of = |what: &str| format!("{}: {what}", policy.name);
        let gained = 100.0 * (median_of(&alone, seconds) / median_of(&runs, seconds) - 1.0);
        findings.push(Finding::new(of("gain over one rank"), "%", None, gained));
        let deviation = deviation_of(&runs, seconds);
        findings.push(Finding::new(of("deviation of the time"), "s", None, deviation));
        let moves = median_of(&runs, |run| run.totals.moves as f64);
        findings.push(Finding::new(of("migrations"), "directories", None, moves));
        let first = median_of(&runs, first_move_seconds);
        findings.push(Finding::new(of("first migration"), "s", None, first));
        forwarded.push(median_of(&runs, |run| run.totals.forwards));
    }
    let of = "forwards of adaptable_too_aggressive beside adaptable_aggressive";
    findings.push(Finding::new(of, "times", 60.0, forwarded[2] / forwarded[1]));
    Ok(Computed::mantle(findings, vec![throughput, forwards]))
}

/// The start of the first tick in which a unit moved; 0 if no unit moved.
fn first_move_seconds(simulation: &Simulation) -> f64 {
    let moved = simulation.ticks.iter().find(|tick| tick.moves > 0);
    moved.map_or(0.0, |tick| tick.at_seconds)
}
