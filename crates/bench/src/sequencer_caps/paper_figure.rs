//! The sequencer's figures of the Malacology paper: throughput by mode, and how long calls take.

use nacre_experiments::{FigureChart, MeasuredFinding, Spread};
use nacre_load::in_turn;
use nacre_object::Result;

use super::contended::{self, Point, Sharing, TWO};
use super::{PAPER, TARGETS, alone_with, new_log};
use crate::bench::Setup;
use crate::paper_figure::Drawn;
use crate::scratch::{self, ScratchCluster};

/// The Malacology paper's name for one client that holds the capability.
const ALONE: &str = "one client";

/// Measures one client, and two that share the capability in each way.
pub(crate) async fn measure(setup: &Setup) -> Result<Drawn> {
    let folder = scratch::folder(&setup.folder)?;
    let cluster = ScratchCluster::start(folder.path(), TARGETS, &setup.program).await?;
    let (mut rates, mut alone, mut two) = (vec![], vec![], vec![]);
    for round in 0..setup.rounds {
        let log = new_log(&cluster, round).await?;
        rates.push(alone_with(&cluster, &log, setup.span).await?);
        let best_effort = Sharing::BestEffort;
        alone.push(contended::measure(&cluster, &log, best_effort, 1, setup.span).await?);
        for sharing in in_turn(round, Sharing::all()) {
            two.push(contended::measure(&cluster, &log, sharing, TWO, setup.span).await?);
        }
    }
    cluster.stop().await;
    Ok(draw(rates, &alone, &two))
}

fn draw(rates: Vec<f64>, alone: &[Point], two: &[Point]) -> Drawn {
    let mut throughput = FigureChart::new(
        "throughput",
        "Positions of one client, and of two that share the sequencer",
        ("mode", "positions a second", "clients"),
    );
    let mut latency = FigureChart::new(
        "latency",
        "How long a position takes",
        ("calls", "nanoseconds of the slowest", "mode"),
    )
    .logarithmic();
    for rate in &rates {
        throughput.push(ALONE, *rate, "sequencer");
    }
    push_latencies(&mut latency, alone, ALONE);
    let mut findings =
        vec![MeasuredFinding::new(ALONE, "positions/s", PAPER, Spread::of(rates.clone()))];
    for sharing in Sharing::all() {
        let points: Vec<_> = two.iter().filter(|point| point.sharing == sharing).cloned().collect();
        let name = sharing.name();
        for point in &points {
            throughput.push(name.clone(), point.rate, "sequencer");
        }
        push_latencies(&mut latency, &points, &name);
        let of = |value: fn(&Point) -> f64| Spread::of(points.iter().map(value));
        let named = |what: &str| format!("two clients, {name}: {what}");
        let rate = MeasuredFinding::new(
            named("positions"),
            "positions/s",
            sharing.public(),
            of(|point| point.rate),
        );
        findings.push(rate);
        findings.push(MeasuredFinding::new(
            named("mean of a call"),
            "us",
            None,
            of(|point| point.mean),
        ));
        findings.push(MeasuredFinding::new(
            named("longest call"),
            "ms",
            None,
            of(|point| point.longest),
        ));
    }
    Drawn { findings, charts: vec![throughput, latency] }
}

fn push_latencies(chart: &mut FigureChart, points: &[Point], name: &str) {
    for point in points {
        for (calls, nanos) in &point.slowest {
            chart.push(*calls, *nanos, name);
        }
    }
}
