//! Figures of the thesis *Supporting Tail Latency SLOs in Ceph*: three tenants on three targets, in
//! a discrete-event simulation with nacre's own scheduler and admission.

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
    Admission, Candidate, Estimator, Layout, Profile, ProfileRow, Queue, QueueTraces, RateBurst,
    Verdict,
};

use super::figure::Computed;
use super::report::Finding;
use super::trial::SEEDS;
use crate::figure_chart::FigureChart;
use crate::thesis::{
    BURST, CLIENTS, ClientLatencies, EQUAL, ESTIMATORS, OVERLOAD, SLO_SECONDS, TARGET_RATE,
    TARGETS, TraceKind, random_writes,
};

const REQUEST_BYTES: u32 = 4096;
/// How long a request keeps a target busy, in seconds.
const SERVICE_SECONDS: f64 = 1.0 / TARGET_RATE;
/// How long clients send requests.
const SECONDS: f64 = 30.0;
/// Requests outstanding at a target, of each kind.
const OUTSTANDING: usize = 8;

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
    for tenant in 0..CLIENTS {
        let name = format!("client {}: p99 without priority", tenant + 1);
        findings.push(Finding::new(name, "ms", None, of(&without, tenant)));
    }
    for tenant in 0..CLIENTS {
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
    for tenant in 0..CLIENTS {
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
    for kind in TraceKind::ALL {
        for estimator in ESTIMATORS {
            let called = kind.name();
            let paper = kind.admitted_in_thesis(estimator).map(|admitted| admitted as f64);
            let name = format!("{called}-{estimator}");
            let (mut admitted, mut busy, mut late) = (vec![], vec![], vec![]);
            for (at, seed) in SEEDS.into_iter().enumerate() {
                let traces = traces(EQUAL, kind, seed);
                let treatments = admit(&traces, estimator)?;
                let run = run(&traces, &treatments)?;
                admitted.push(treatments.iter().flatten().count() as f64);
                busy.push(100.0 * busiest(&traces, &treatments));
                late.push(
                    (0..CLIENTS).map(|tenant| late_percent(&run, tenant)).fold(0.0, f64::max),
                );
                if at == 0 {
                    charts.push(run.chart(&name, &format!("{called} traces, {estimator}")));
                }
            }
            let of = |what: &str| format!("{called} traces, {estimator}: {what}");
            findings.push(Finding::new(of("tenants admitted"), "", paper, median(admitted)));
            let asked = "work asked of the busiest target";
            findings.push(Finding::new(of(asked), "% of its capacity", None, median(busy)));
            let worst = "requests of the worst tenant above its SLO";
            findings.push(Finding::new(of(worst), "%", None, median(late)));
        }
    }
    Ok(Computed::thesis(findings, charts))
}

/// Three tenants on one target.
struct Overload {
    /// Of each tenant, in seconds.
    latencies_p99: [f64; CLIENTS],
    /// How many requests of each tenant took longer than its promise.
    above_percent: [f64; CLIENTS],
    chart: FigureChart,
}

fn overload(
    name: &str,
    rates: [f64; CLIENTS],
    settings: &dyn Fn(usize) -> TenantSettings,
) -> Result<Overload> {
    let (mut p99, mut above) = ([const { vec![] }; CLIENTS], [const { vec![] }; CLIENTS]);
    let mut chart = None;
    for seed in SEEDS {
        let traces = traces(rates, TraceKind::Unbalanced, seed);
        let treatment = |tenant| Some(BTreeMap::from([(0, unbounded(settings(tenant)))]));
        let run = run(&traces, &[0, 1, 2].map(treatment))?;
        for tenant in 0..CLIENTS {
            p99[tenant].push(run.percentile(tenant, 0.99));
            above[tenant].push(late_percent(&run, tenant));
        }
        let title = format!("three tenants on one target: {name}");
        chart.get_or_insert_with(|| run.chart(name, &title));
    }
    let chart = chart.ok_or_else(|| Error::invalid("there are no seeds"))?;
    Ok(Overload { latencies_p99: p99.map(median), above_percent: above.map(median), chart })
}

/// How many percent of a tenant's requests took longer than promised.
fn late_percent(run: &ClientLatencies, tenant: usize) -> f64 {
    run.late_percent(tenant, SLO_SECONDS[tenant])
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

/// The requests of each tenant at these rates.
fn traces(rates: [f64; CLIENTS], kind: TraceKind, seed: u64) -> [Trace; CLIENTS] {
    let mut random = Random::seeded(seed);
    let targets = match kind {
        TraceKind::Balanced => TARGETS,
        TraceKind::Unbalanced => 1,
    };
    rates.map(|rate| {
        let names = (0..targets).map(|target| target.to_string().into()).collect();
        random_writes(&mut random, (rate, SECONDS), REQUEST_BYTES, names)
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
fn admit(traces: &[Trace; CLIENTS], estimator: Estimator) -> Result<[Treatment; CLIENTS]> {
    let profile = profile()?;
    let blocking_seconds = OUTSTANDING as f64 * SERVICE_SECONDS;
    let queue = |number| Queue { name: format!("target {number}"), blocking_seconds };
    let queues = (0..estimator.queues(TARGETS)).map(queue).collect();
    let mut admission = Admission::new(queues, 0)?;
    let mut names = vec![];
    for (number, (trace, promise)) in traces.iter().zip(SLO_SECONDS).enumerate() {
        let name = TenantName::new(format!("client{}", number + 1))?;
        let work = QueueTraces::new(trace, &profile, &ByName, REQUEST_BYTES.into(), estimator)?;
        let own = Candidate::on_devices(name.clone(), promise, work.flows()?);
        let candidate = Candidate { sharing: estimator.sharing(), ..own };
        if admission.admit(candidate)? == Verdict::Admitted {
            names.push((name, number));
        }
    }
    let mut treatments = [const { None }; CLIENTS];
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
fn busiest(traces: &[Trace; CLIENTS], treatments: &[Treatment; CLIENTS]) -> f64 {
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

/// Simulates the requests of admitted tenants.
fn run(traces: &[Trace; CLIENTS], treatments: &[Treatment; CLIENTS]) -> Result<ClientLatencies> {
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
    let mut of_clients = ClientLatencies::default();
    for (latencies, number) in simulate(&scenario)?.into_iter().zip(numbers) {
        for (record, latency) in traces[number].records.iter().zip(latencies) {
            of_clients.push(number, record.at.as_secs_f64(), latency.as_secs_f64());
        }
    }
    Ok(of_clients)
}
