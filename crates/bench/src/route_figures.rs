//! Figures of the sRoute paper that are measured on nodes: `nacre-bench experiment sroute-5-switch`,
//! `sroute-7-tail`, `sroute-8-replicas` and `sroute-10-caches`. They run the benches `route-switch`,
//! `route-tail`, `route-replicas` and `route-caches`.

use nacre_experiments::{FigureChart, MeasuredFinding, Spread};
use nacre_object::Result;

use crate::bench::Setup;
use crate::figure::Figure;
use crate::paper_figure::Drawn;
use crate::{route_caches, route_replicas, route_switch, route_tail};

/// The IO/s of one switch in the paper (section 4): at least, with large IO, and at most.
const PAPER_SWITCH_RATES: [f64; 2] = [50_000.0, 180_000.0];
/// How many times better the tail latency in a burst was: two orders of magnitude (section 5.1).
const PAPER_TAIL_GAIN: f64 = 100.0;
/// How much more reads two replicas served, in per cent (section 5.2).
const PAPER_REPLICAS_GAIN: f64 = 63.0;
/// How much more IO a divided cache served, in per cent, and how many times as much of the squeezed
/// tenant (section 5.3).
const PAPER_CACHES_GAIN: f64 = 57.0;
const PAPER_SQUEEZED: f64 = 2.0;

/// Figure 5: IO a second of a switch by its rules.
pub(crate) async fn measure_switch(setup: &Setup) -> Result<Drawn> {
    let mut figures = vec![];
    route_switch::run(setup, &mut |figure| figures.push(figure)).await?;
    let rates = figures.iter().filter(|one| one.unit == "IO/s" && one.baseline_name == "no switch");
    let (mut chart, mut findings) =
        (bars("rates", "IO a second and core of a switch", "IO/s"), vec![]);
    for figure in rates {
        let name = last_part(&figure.figure);
        chart.push(name, figure.ours, "switch");
        chart.push(name, figure.baseline, "no switch");
        for (bound, paper) in ["least", "most"].into_iter().zip(PAPER_SWITCH_RATES) {
            let what = format!("IO a second and core, {name} (paper: at {bound})");
            findings.push(finding(&what, "IO/s", Some(paper), figure.ours));
        }
    }
    let added = figures.iter().filter(|one| one.unit == "us");
    findings.extend(added.map(|figure| finding(&figure.figure, "us", None, figure.ours)));
    Ok(Drawn { findings, charts: vec![chart] })
}

/// Figure 7: latencies of an overloaded target, without routing and with it.
pub(crate) async fn measure_tail(setup: &Setup) -> Result<Drawn> {
    let rounds = route_tail::measure_main_case(setup).await?;
    let axes = ("requests of 1,000 that take longer", "ms", "side");
    let (name, title) = match setup.ceph_cluster {
        Some(_) => ("ceph-latencies", "Latencies in a burst on Ceph"),
        None => ("latencies", "Latencies in a burst"),
    };
    let mut chart = FigureChart::new(name, title, axes).logarithmic();
    for percentile in [50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.8, 99.9] {
        let medians = rounds.medians(|one| one.bursting_millis(percentile));
        for (side, millis) in ["no routing", "routing"].into_iter().zip(medians) {
            chart.push(slower_of_thousand(percentile), millis, side);
        }
    }
    let gain = |percentile| {
        let [unrouted, routed] = rounds.medians(|one| one.bursting_millis(percentile));
        unrouted / routed
    };
    let mut findings = vec![];
    for (percentile, paper) in [(50.0, None), (99.0, None), (99.9, Some(PAPER_TAIL_GAIN))] {
        let what = format!("p{percentile} in the burst, better by");
        findings.push(finding(&what, "times", paper, gain(percentile)));
    }
    let [unrouted, routed] = rounds.medians(|one| one.others_millis(99.0));
    findings.push(finding("p99 of the other volumes, longer by", "times", None, routed / unrouted));
    Ok(Drawn { findings, charts: vec![chart] })
}

/// How many of 1,000 requests are above a percentile.
fn slower_of_thousand(percentile: f64) -> f64 {
    (1e3 - percentile * 10.0).round()
}

/// Figure 8: reads from replicas beside reads from the primary.
pub(crate) async fn measure_replicas(setup: &Setup) -> Result<Drawn> {
    let mut figures = vec![];
    let mut chart = match setup.ceph_cluster {
        None => {
            route_replicas::run(setup, &mut |figure| figures.push(figure)).await?;
            bars("reads", "Reads a second of hot objects", "reads/s")
        }
        Some(_) => {
            route_replicas::run_on_ceph(setup, &mut |figure| figures.push(figure)).await?;
            bars("ceph-reads", "Reads a second of hot objects on Ceph", "reads/s")
        }
    };
    let mut findings = vec![];
    // The paper has no figure about objects that are written too, which is the second one.
    for figure in figures.iter().take(1) {
        chart.push("primary only", figure.baseline, "reads from");
        chart.push("primary and a copy", figure.ours, "reads from");
        findings.push(finding(
            "more reads than from the primary",
            "%",
            Some(PAPER_REPLICAS_GAIN),
            gain(figure),
        ));
    }
    Ok(Drawn { findings, charts: vec![chart] })
}

/// Figure 10: a cache divided among two tenants beside one that they share.
pub(crate) async fn measure_caches(setup: &Setup) -> Result<Drawn> {
    let mut figures = vec![];
    let mut chart = match setup.ceph_cluster {
        None => {
            route_caches::run(setup, &mut |figure| figures.push(figure)).await?;
            bars("reads", "Reads a second of two tenants", "IO/s")
        }
        Some(_) => {
            route_caches::run_on_ceph(setup, &mut |figure| figures.push(figure)).await?;
            bars("ceph-reads", "Reads a second of two tenants on Ceph", "IO/s")
        }
    };
    let mut findings = vec![];
    for figure in &figures {
        let name = last_part(&figure.figure);
        chart.push(name, figure.baseline, "one cache");
        chart.push(name, figure.ours, "divided cache");
        findings.push(match name {
            "both tenants" => {
                finding("more reads of both tenants", "%", Some(PAPER_CACHES_GAIN), gain(figure))
            }
            "the squeezed tenant" => {
                finding("the squeezed tenant's reads", "times", Some(PAPER_SQUEEZED), figure.ratio)
            }
            other => finding(&format!("reads of {other}"), "times", None, figure.ratio),
        });
    }
    Ok(Drawn { findings, charts: vec![chart] })
}

fn bars(name: &str, title: &str, unit: &str) -> FigureChart {
    FigureChart::new(name, title, ("what", unit, "side"))
}

fn finding(what: &str, unit: &str, paper: Option<f64>, measured: f64) -> MeasuredFinding {
    MeasuredFinding::new(what, unit, paper, Spread::exactly(vec![measured]))
}

/// How much more than the baseline, in per cent.
fn gain(figure: &Figure) -> f64 {
    (figure.ratio - 1.0) * 100.0
}

fn last_part(name: &str) -> &str {
    name.rsplit_once(", ").map_or(name, |(_, last)| last)
}
