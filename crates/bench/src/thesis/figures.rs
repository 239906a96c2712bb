//! Figures 9 to 18 of the thesis, measured on nodes.
//!
//! Figures 9 to 12 overload one target. The request rates are scaled to what this target serves.
//! Each client is promised a latency for one rate. In figures 11 and 12 one client sends more than
//! this rate, and the other two keep to it.

use std::time::Duration;

use nacre_clock::Random;
use nacre_experiments::thesis::{
    BURST, CLIENTS, ESTIMATORS, OVERLOAD, SLO_SECONDS, TARGET_RATE, TraceKind, client_name,
};
use nacre_experiments::{FigureChart, MeasuredFinding, Spread};
use nacre_object::{Error, Result};
use nacre_qos::Estimator;
use nacre_qos::trace::Trace;
use nacre_terminal::out::note;

use super::clients::{Clients, Played};
use super::estimators;
use crate::bench::Setup;
use crate::paper_figure::Drawn;
use crate::slow_targets::SlowTargets;

/// The requests a second for which each client has a promise in figures 9 to 12.
const PROMISED: f64 = 300.0;

/// Precedes the names of charts, which lie beside the simulated ones.
fn prefix(setup: &Setup) -> &'static str {
    if setup.ceph_cluster.is_some() { "ceph" } else { "embedded" }
}

/// How a target treats the clients of figures 9 to 12.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Treatment {
    /// Requests are served as they come.
    Neither,
    /// Clients are served by priority, and none is limited.
    Priority,
    /// Each client has a priority and a limit.
    PriorityAndLimit,
}

/// Figures 9 and 10: three clients overload a target, without priorities and with them.
pub(crate) async fn measure_priority(setup: &Setup) -> Result<Drawn> {
    let sides = [(Treatment::Neither, "neither"), (Treatment::Priority, "priority")];
    let runs = overload(setup, OVERLOAD, sides).await?;
    let mut findings = vec![];
    for (run, what) in runs.iter().zip(["without priority", "with priority"]) {
        for client in 0..CLIENTS {
            let p99 =
                run.rounds.iter().map(|played| 1e3 * played.latencies.percentile(client, 0.99));
            let name = format!("{}: p99 {what}", client_name(client));
            findings.push(MeasuredFinding::new(name, "ms", None, Spread::of(p99)));
        }
    }
    Ok(Drawn { findings, charts: runs.into_iter().map(|run| run.chart).collect() })
}

/// Figures 11 and 12: the client of highest priority bursts, without rate limits and with them.
pub(crate) async fn measure_rate_limits(setup: &Setup) -> Result<Drawn> {
    let sides = [(Treatment::Priority, "unlimited"), (Treatment::PriorityAndLimit, "limited")];
    let runs = overload(setup, BURST, sides).await?;
    let mut findings = vec![];
    for (client, slo_seconds) in SLO_SECONDS.iter().enumerate() {
        for (run, what) in runs.iter().zip(["without rate limits", "with rate limits"]) {
            let slo = slo_seconds * run.scale;
            let late = run.rounds.iter().map(|played| played.latencies.late_percent(client, slo));
            let name = format!("{}: above its SLO {what}", client_name(client));
            findings.push(MeasuredFinding::new(name, "%", None, Spread::of(late)));
        }
    }
    findings.push(scale_finding(runs[0].scale));
    Ok(Drawn { findings, charts: runs.into_iter().map(|run| run.chart).collect() })
}

/// Figures 13 to 18 and table 1: which clients each estimator admits, and what follows.
pub(crate) async fn measure_estimators(setup: &Setup) -> Result<Drawn> {
    let clients = Clients::new(SlowTargets::start_on_either(setup).await?).await?;
    let scale = estimators::scale(&clients, setup.span).await?;
    let trials = estimators::measure(&clients, scale, setup.rounds, setup.span).await?;
    clients.slow.stop().await;
    let (mut findings, mut charts) = (vec![], vec![]);
    for kind in TraceKind::ALL {
        for estimator in ESTIMATORS {
            let own = |one: &&estimators::Trial| one.kind == kind && one.estimator == estimator;
            let of = |value: fn(&estimators::Trial) -> f64| {
                Spread::of(trials.iter().filter(own).map(value))
            };
            let title = format!("{} traces, {estimator}", kind.name());
            let mut find = |what: &str, unit: &str, paper, spread| {
                findings.push(MeasuredFinding::new(
                    format!("{title}: {what}"),
                    unit,
                    paper,
                    spread,
                ));
            };
            let thesis = kind.admitted_in_thesis(estimator).map(|admitted| admitted as f64);
            find("clients admitted", "", thesis, of(|trial| trial.admitted as f64));
            let unit = "% of what can be promised";
            let assumed = of(|trial| 100.0 * trial.assumed_load);
            find("assumed load of the busiest target", unit, None, assumed);
            let measured = of(|trial| 100.0 * trial.measured_load);
            find("measured load of the busiest target", unit, None, measured);
            let late = of(|trial| 100.0 * trial.late as f64 / trial.requests.max(1) as f64);
            find("requests above their SLO", "%", None, late);
            if let Some(first) = trials.iter().find(own) {
                let name = format!("{}-{}-{estimator}", prefix(setup), kind.name());
                charts.push(first.latencies.chart(&name, &title));
            }
        }
    }
    findings.push(scale_finding(scale));
    Ok(Drawn { findings, charts })
}

fn scale_finding(scale: f64) -> MeasuredFinding {
    MeasuredFinding::new("SLOs, as a multiple of the thesis'", "times", None, Spread::of([scale]))
}

/// What came of one treatment.
struct Overload {
    rounds: Vec<Played>,
    /// The promised latencies are those of the thesis times this factor.
    scale: f64,
    /// Of the first round.
    chart: FigureChart,
}

/// Sends requests to one target at these rates, with each treatment in turn.
async fn overload(
    setup: &Setup,
    rates: [f64; CLIENTS],
    sides: [(Treatment, &str); 2],
) -> Result<Vec<Overload>> {
    let clients = Clients::new(SlowTargets::start_on_either(setup).await?).await?;
    let capacity = clients.capacity().await?;
    note(&format!("a target serves {capacity:.0} writes a second"));
    let traces = |rates: [f64; CLIENTS], round: usize| -> [Trace; CLIENTS] {
        let mut random = Random::seeded(round as u64 + 1);
        std::array::from_fn(|client| {
            let rate = rates[client] / TARGET_RATE * capacity;
            let load = (rate, setup.span.as_secs_f64());
            clients.trace(client, TraceKind::Unbalanced, load, &mut random)
        })
    };
    let promised = traces([PROMISED; CLIENTS], 0);
    let scale = clients.scale(&promised).await?;
    let mut rounds = sides.map(|_| vec![]);
    for round in 0..setup.rounds {
        let sent = traces(rates, round);
        for ((treatment, name), rounds) in sides.into_iter().zip(&mut rounds) {
            note(&format!("round {}: {name}", round + 1));
            treat(&clients, &promised, scale, treatment, setup.span).await?;
            rounds.push(clients.play(sent.each_ref().map(Some), setup.span).await?);
        }
    }
    clients.slow.stop().await;
    let runs = sides.into_iter().zip(rounds).map(|((_, name), rounds)| {
        let latencies = rounds.first().map(|played: &Played| played.latencies.clone());
        let title = format!("three clients on one target: {name}");
        let chart =
            latencies.unwrap_or_default().chart(&format!("{}-{name}", prefix(setup)), &title);
        Overload { rounds, scale, chart }
    });
    Ok(runs.collect())
}

/// Makes the cluster treat the clients in this way.
async fn treat(
    clients: &Clients,
    promised: &[Trace; CLIENTS],
    scale: f64,
    treatment: Treatment,
    span: Duration,
) -> Result<()> {
    let admitted = clients.admit(promised, scale, Estimator::PerTarget).await?;
    if admitted != [true; CLIENTS] {
        return Err(Error::exhausted("the targets are too slow to promise all clients a latency")
            .hint("measure when the machine does nothing else"));
    }
    if treatment == Treatment::Priority {
        clients.lift_limits(span.as_secs_f64()).await?;
    }
    clients.slow.client.slos().enforce(treatment != Treatment::Neither).await
}
