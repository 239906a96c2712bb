//! Figures of the thesis *Supporting Tail Latency SLOs in Ceph*: three tenants on three targets, in
//! a discrete-event simulation with nacre's own scheduler and admission.
//!
//! The thesis does not say how fast its machines were. Here a target serves a request in 0.5 ms. So
//! three tenants with 1,000 requests a second each overload one target, and one tenant with 1,400
//! does not.

use std::collections::BTreeMap;
use std::time::Duration;

use nacre_clock::Random;
use nacre_load::median;
use nacre_object::{Error, Result, TenantName};
use nacre_qos::scheduler::{DeviceLimits, KindLimits, TenantSettings, Ties};
use nacre_qos::simulate::{
    Scenario, SimulatedDevice, SimulatedQueue, SimulatedRequest, SimulatedTenant, Step, simulate,
};
use nacre_qos::trace::{Trace, TraceLocation, TraceRecord};
use nacre_qos::{
    Admission, Candidate, Estimator, IoKind, Layout, Profile, ProfileRow, Queue, QueueTraces,
    RateBurst, Verdict,
};

use super::figure::Computed;
use super::report::Finding;
use super::trial::SEEDS;
use crate::figure_chart::FigureChart;

const TARGETS: usize = 3;
/// The promises of the thesis (section 5.1), in seconds: the tighter, the higher the priority.
const PROMISES: [f64; 3] = [0.3, 0.4, 0.5];
const REQUEST_BYTES: u32 = 4096;
/// How long a request keeps a target busy, in seconds.
const SERVICE_SECONDS: f64 = 0.0005;
/// How long clients send requests.
const SECONDS: f64 = 30.0;
/// Requests outstanding at a target, of each kind.
const OUTSTANDING: usize = 8;
/// The requests a second of each of the three tenants: `OVERLOAD` for figures 9 and 10, `BURST` for
/// figures 11 and 12, and `EQUAL` for figures 13 to 18.
const OVERLOAD: [f64; 3] = [1000.0; 3];
const BURST: [f64; 3] = [3000.0, 300.0, 300.0];
const EQUAL: [f64; 3] = [1400.0; 3];

/// Where the requests of a tenant go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spread {
    /// To all targets alike.
    Balanced,
    /// To one target.
    Unbalanced,
}

/// An object is named by the target that keeps it.
struct ByName;

impl Layout for ByName {
    fn targets(&self) -> usize {
        TARGETS
    }

    fn locate(&self, object: Option<&str>) -> Result<Vec<usize>> {
        let target = object.and_then(|object| object.parse().ok());
        target
            .map(|target| vec![target])
            .ok_or_else(|| Error::invalid("the name of the object is not the number of a target"))
    }
}

/// How a tenant is treated at each target; `None` if it was not admitted.
type Treatment = Option<BTreeMap<usize, TenantSettings>>;

/// Figures 9 and 10: three tenants overload a target, without priorities and with them.
pub(super) fn priority() -> Result<Computed> {
    let first_come = |_| TenantSettings::promised(0, vec![unlimited()]);
    let by_priority = |tenant| TenantSettings::promised(tenant as u32, vec![unlimited()]);
    let without = overload("neither", OVERLOAD, &first_come)?;
    let with = overload("priority", OVERLOAD, &by_priority)?;
    let of = |run: &Overload, tenant: usize| run.latencies_p99[tenant] * 1e3;
    let mut findings = vec![];
    for tenant in 0..PROMISES.len() {
        let name = format!("client {}: p99 without priority", tenant + 1);
        findings.push(Finding::new(name, "ms", None, of(&without, tenant)));
    }
    for tenant in 0..PROMISES.len() {
        let name = format!("client {}: p99 with priority", tenant + 1);
        findings.push(Finding::new(name, "ms", None, of(&with, tenant)));
    }
    Ok(Computed::thesis(findings, vec![without.chart, with.chart]))
}

/// Figures 11 and 12: the tenant of highest priority bursts, without rate limits and with them.
pub(super) fn rate_limits() -> Result<Computed> {
    let unlimited = |tenant| TenantSettings::promised(tenant as u32, vec![unlimited()]);
    // Each tenant has a tenth more than the 300 requests a second of the others.
    let bucket = RateBurst { rate: 330.0 * SERVICE_SECONDS, burst_seconds: 0.05 };
    let limited = |tenant| TenantSettings::promised(tenant as u32, vec![bucket]);
    let without = overload("unlimited", BURST, &unlimited)?;
    let with = overload("limited", BURST, &limited)?;
    let mut findings = vec![];
    for tenant in 0..PROMISES.len() {
        let of = |what: &str| format!("client {}: above its SLO {what}", tenant + 1);
        for (what, run) in [("without rate limits", &without), ("with rate limits", &with)] {
            findings.push(Finding::new(of(what), "%", None, run.above_percent[tenant]));
        }
    }
    Ok(Computed::thesis(findings, vec![without.chart, with.chart]))
}

/// Figures 13 to 18 and table 1: which tenants each estimator admits, and the latencies that
/// follow.
pub(super) fn estimators() -> Result<Computed> {
    let (mut findings, mut charts) = (vec![], vec![]);
    for (spread, called, paper) in [
        (Spread::Unbalanced, "unbalanced", [1.0, 3.0, 1.0]),
        (Spread::Balanced, "balanced", [3.0, 3.0, 1.0]),
    ] {
        let estimators = [Estimator::PerTarget, Estimator::Optimistic, Estimator::Pessimistic];
        for (estimator, paper) in estimators.into_iter().zip(paper) {
            let name = format!("{called}-{estimator}");
            let mut chart = latency_chart(&name, &format!("{called} traces, {estimator}"));
            let (mut admitted, mut busy, mut above) = (vec![], vec![], vec![]);
            for (at, seed) in SEEDS.into_iter().enumerate() {
                let traces = traces(EQUAL, spread, seed);
                let treatments = admit(&traces, estimator)?;
                let run = run(&traces, &treatments)?;
                admitted.push(treatments.iter().flatten().count() as f64);
                busy.push(100.0 * busiest(&traces, &treatments));
                above.push(
                    (0..PROMISES.len()).map(|tenant| run.above_percent(tenant)).fold(0.0, f64::max),
                );
                if at == 0 {
                    run.draw(&mut chart);
                }
            }
            let of = |what: &str| format!("{called} traces, {estimator}: {what}");
            findings.push(Finding::new(of("tenants admitted"), "", paper, median(admitted)));
            let asked = "work asked of the busiest target";
            findings.push(Finding::new(of(asked), "% of its capacity", None, median(busy)));
            let worst = "requests of the worst tenant above its SLO";
            findings.push(Finding::new(of(worst), "%", None, median(above)));
            charts.push(chart);
        }
    }
    Ok(Computed::thesis(findings, charts))
}

/// Three tenants on one target.
struct Overload {
    /// Of each tenant, in seconds.
    latencies_p99: [f64; 3],
    /// How many requests of each tenant took longer than its promise.
    above_percent: [f64; 3],
    chart: FigureChart,
}

fn overload(
    name: &str,
    rates: [f64; 3],
    settings: &dyn Fn(usize) -> TenantSettings,
) -> Result<Overload> {
    let mut chart = latency_chart(name, &format!("three tenants on one target: {name}"));
    let (mut p99, mut above) = ([const { vec![] }; 3], [const { vec![] }; 3]);
    for (at, seed) in SEEDS.into_iter().enumerate() {
        let traces = traces(rates, Spread::Unbalanced, seed);
        let treatment = |tenant| Some(BTreeMap::from([(0, unbounded(settings(tenant)))]));
        let run = run(&traces, &[0, 1, 2].map(treatment))?;
        for tenant in 0..PROMISES.len() {
            p99[tenant].push(run.percentile(tenant, 0.99));
            above[tenant].push(run.above_percent(tenant));
        }
        if at == 0 {
            run.draw(&mut chart);
        }
    }
    Ok(Overload { latencies_p99: p99.map(median), above_percent: above.map(median), chart })
}

fn latency_chart(name: &str, title: &str) -> FigureChart {
    FigureChart::new(name, title, ("seconds", "p99 in ms", "tenant"))
}

/// A token bucket that never limits a tenant: its rate is all that a target can serve, and its
/// burst lasts for the whole run.
fn unlimited() -> RateBurst {
    RateBurst { rate: 1.0, burst_seconds: SECONDS }
}

/// The settings without a limit on the queue, so that an overload shows as latency instead of
/// refused requests.
fn unbounded(settings: TenantSettings) -> TenantSettings {
    TenantSettings { queue_requests: usize::MAX, queue_bytes: u64::MAX, ..settings }
}

/// The requests of each tenant: Poisson arrivals at these rates.
fn traces(rates: [f64; 3], spread: Spread, seed: u64) -> [Trace; 3] {
    let mut random = Random::seeded(seed);
    rates.map(|rate| {
        let (mut at, mut records) = (0.0, vec![]);
        while at < SECONDS {
            let name = match spread {
                Spread::Balanced => records.len() % TARGETS,
                Spread::Unbalanced => 0,
            };
            records.push(TraceRecord {
                at: Duration::from_secs_f64(at),
                kind: IoKind::Write,
                bytes: REQUEST_BYTES.into(),
                location: TraceLocation::Object { name },
            });
            let chance = (1 + random.below(1 << 53)) as f64 / (1u64 << 53) as f64;
            at -= chance.ln() / rate;
        }
        let names = (0..TARGETS).map(|target| target.to_string().into()).collect();
        Trace { records, names, clock_step: Duration::from_nanos(1) }
    })
}

fn profile() -> Result<Profile> {
    let bandwidth = f64::from(REQUEST_BYTES) / SERVICE_SECONDS;
    Profile::new(vec![ProfileRow {
        bytes: REQUEST_BYTES.into(),
        read_bytes_per_second: bandwidth,
        write_bytes_per_second: bandwidth,
    }])
}

/// Admits tenants one after the other; returns how each is treated.
fn admit(traces: &[Trace; 3], estimator: Estimator) -> Result<[Treatment; 3]> {
    let profile = profile()?;
    let blocking_seconds = OUTSTANDING as f64 * SERVICE_SECONDS;
    let queue = |number| Queue { name: format!("target {number}"), blocking_seconds };
    let queues = (0..estimator.queues(TARGETS)).map(queue).collect();
    let mut admission = Admission::new(queues, 0)?;
    let mut names = vec![];
    for (number, (trace, promise)) in traces.iter().zip(PROMISES).enumerate() {
        let name = TenantName::new(format!("client{}", number + 1))?;
        let work = QueueTraces::new(trace, &profile, &ByName, REQUEST_BYTES.into(), estimator)?;
        let own = Candidate::on_devices(name.clone(), promise, work.flows()?);
        let candidate = Candidate { sharing: estimator.sharing(), ..own };
        if admission.admit(candidate)? == Verdict::Admitted {
            names.push((name, number));
        }
    }
    let mut treatments = [const { None }; 3];
    for (admitted, priority) in admission.tenants().iter().zip(admission.priorities()) {
        let own = names.iter().find(|(name, _)| *name == admitted.candidate.tenant);
        let Some((_, number)) = own else { continue };
        let mut at_targets = BTreeMap::new();
        for (flow, bucket) in admitted.candidate.flows.iter().zip(&admitted.buckets) {
            let settings =
                |bucket| unbounded(TenantSettings::promised(priority as u32, vec![bucket]));
            match estimator {
                Estimator::PerTarget | Estimator::Uniform => {
                    at_targets.insert(flow.queue, settings(*bucket));
                }
                // One queue stands for all targets. The optimistic queue is as fast as all of them
                // together.
                Estimator::Optimistic | Estimator::Pessimistic => {
                    let times =
                        if estimator == Estimator::Optimistic { TARGETS as f64 } else { 1.0 };
                    let rate = (bucket.rate * times).min(1.0);
                    let burst_seconds = bucket.burst_seconds * times;
                    for target in 0..TARGETS {
                        at_targets.insert(target, settings(RateBurst { rate, burst_seconds }));
                    }
                }
            }
        }
        treatments[*number] = Some(at_targets);
    }
    Ok(treatments)
}

/// The work that admitted tenants request from the busiest target, as a share of the target's
/// capacity.
fn busiest(traces: &[Trace; 3], treatments: &[Treatment; 3]) -> f64 {
    let mut work = [0.0; TARGETS];
    for (trace, _) in traces.iter().zip(treatments).filter(|(_, treatment)| treatment.is_some()) {
        for record in &trace.records {
            work[target_of(record)] += SERVICE_SECONDS;
        }
    }
    work.into_iter().fold(0.0, f64::max) / SECONDS
}

fn target_of(record: &TraceRecord) -> usize {
    match record.location {
        TraceLocation::Object { name } => name,
        TraceLocation::Unknown | TraceLocation::Block { .. } => 0,
    }
}

/// Requests of admitted tenants, with what each took.
struct Run {
    /// By tenant: when a request came, and its latency, both in seconds.
    requests: [Vec<(f64, f64)>; 3],
}

fn run(traces: &[Trace; 3], treatments: &[Treatment; 3]) -> Result<Run> {
    let limits = KindLimits { requests: OUTSTANDING, bytes: u64::MAX };
    let limits = DeviceLimits { reads: limits, writes: limits };
    let queue = SimulatedQueue { limits, ties: Ties::FirstCome, device: SimulatedDevice::Serial };
    let work = Duration::from_secs_f64(SERVICE_SECONDS);
    let (mut tenants, mut numbers) = (vec![], vec![]);
    for (number, (trace, treatment)) in traces.iter().zip(treatments).enumerate() {
        let Some(settings) = treatment else { continue };
        let request = |record: &TraceRecord| SimulatedRequest {
            at: record.at,
            kind: record.kind,
            bytes: REQUEST_BYTES,
            legs: vec![vec![Step { queue: target_of(record), work }]],
        };
        let requests = trace.records.iter().map(request).collect();
        let settings = settings.iter().map(|(target, own)| (*target, own.clone())).collect();
        tenants.push(SimulatedTenant { settings, requests });
        numbers.push(number);
    }
    let scenario = Scenario { queues: vec![queue; TARGETS], tenants };
    let mut requests = [const { vec![] }; 3];
    for (latencies, number) in simulate(&scenario)?.into_iter().zip(numbers) {
        let came = traces[number].records.iter().map(|record| record.at.as_secs_f64());
        requests[number] = came.zip(latencies.iter().map(Duration::as_secs_f64)).collect();
    }
    Ok(Run { requests })
}

impl Run {
    fn percentile(&self, tenant: usize, share: f64) -> f64 {
        percentile(self.requests[tenant].iter().map(|(_, latency)| *latency).collect(), share)
    }

    fn above_percent(&self, tenant: usize) -> f64 {
        let requests = &self.requests[tenant];
        let above = requests.iter().filter(|(_, latency)| *latency > PROMISES[tenant]).count();
        100.0 * above as f64 / requests.len().max(1) as f64
    }

    /// Draws the p99 of each second.
    fn draw(&self, chart: &mut FigureChart) {
        for (tenant, requests) in self.requests.iter().enumerate() {
            let mut seconds: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
            for (came, latency) in requests {
                seconds.entry(*came as u64).or_default().push(*latency);
            }
            for (second, latencies) in seconds {
                let p99 = 1e3 * percentile(latencies, 0.99);
                chart.push(second, p99, &format!("client {}", tenant + 1));
            }
        }
    }
}

fn percentile(mut latencies: Vec<f64>, share: f64) -> f64 {
    latencies.sort_unstable_by(f64::total_cmp);
    let at = (latencies.len() as f64 * share).ceil() as usize;
    latencies.get(at.saturating_sub(1)).copied().unwrap_or_default()
}
