//! `nacre slo place`: a target for each of some tenants.

use std::path::PathBuf;

use nacre_object::{Error, Result, TenantName};
use nacre_qos::trace::TraceFormat;
use nacre_qos::{
    ArrivalCurve, FirstFit, PlacedTenant, Placement, Profile, Queue, RateBurst, WorkArrival,
    WorkTrace, first_fit,
};
use serde::{Deserialize, Serialize};

use super::input::{read_json, read_trace};
use super::{bound_name, latency, milliseconds, units};
use crate::out::{Out, printable, table};

/// Which tenants, and how
#[derive(Debug, clap::Args)]
pub struct PlaceArguments {
    /// A file in JSON with targets and tenants (docs/slo.md); `-` is standard input
    file: PathBuf,
    /// A file in JSON with the cost of requests on a target (docs/slo.md), for tenants that have a
    /// trace
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Compute each latency exactly, even for targets that a quick check rules out: slower, with
    /// the same result
    #[arg(long)]
    plain: bool,
    /// The share of a tenant's requests that may take longer, such as 0.001, for tenants whose
    /// entry in the file names none (default: none)
    #[arg(long, value_name = "PROBABILITY", value_parser = units::violation)]
    violation: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    targets: Vec<Queue>,
    tenants: Vec<Tenant>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tenant {
    tenant: String,
    slo_seconds: f64,
    violation: Option<f64>,
    /// What `nacre slo curve --json` prints.
    curve: Option<ArrivalCurve>,
    /// A file with a trace, in place of a curve.
    trace: Option<PathBuf>,
    format: Option<String>,
}

/// What comes of it.
#[derive(Debug, Serialize)]
struct PlacementOutcome {
    placed: usize,
    refused: usize,
    /// Linear programs that were solved.
    programs: u64,
    tenants: Vec<TenantOutcome>,
}

#[derive(Debug, Serialize)]
struct TenantOutcome {
    tenant: String,
    slo_seconds: f64,
    /// The part of its requests that may take longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    violation: Option<f64>,
    target: Option<String>,
    priority: Option<usize>,
    bucket: Option<RateBurst>,
    latency_seconds: Option<f64>,
    /// Why the tenant fits on no target. Each target has its own reason; this is the reason of the
    /// target with the least work.
    refusal: Option<String>,
}

/// Places the tenants, and shows where.
pub(super) fn place(arguments: &PlaceArguments, out: Out) -> Result<()> {
    let question: Question = read_json(&arguments.file, "question about places")?;
    let profile =
        arguments.profile.as_deref().map(|path| read_json(path, "profile")).transpose()?;
    let tenants = question.tenants.iter().map(|tenant| tenant.read(profile.as_ref()));
    let mut tenants = tenants.collect::<Result<Vec<_>>>()?;
    for tenant in &mut tenants {
        tenant.violation = tenant.violation.or(arguments.violation);
    }
    let mode = if arguments.plain { FirstFit::Plain } else { FirstFit::Fast };
    let placement = first_fit(question.targets, tenants.clone(), mode)?;
    let placed = placed(&tenants, &placement)?;
    out.show(&placed, || text(&placed))
}

impl Tenant {
    fn read(&self, profile: Option<&Profile>) -> Result<PlacedTenant> {
        let curve = match (&self.curve, &self.trace, profile) {
            (Some(curve), None, _) => curve.clone(),
            (None, Some(path), Some(profile)) => {
                let format = self.format.as_deref().map(str::parse::<TraceFormat>).transpose()?;
                let trace = read_trace(path, format)?;
                if trace.clock_step.as_secs() > 0 {
                    let message = format!("the times of {} are whole seconds", path.display());
                    return Err(Error::unsupported(message)
                        .on(&self.tenant)
                        .hint("use a trace with finer times, or give the tenant a curve"));
                }
                let arrivals = trace.records.iter().map(|record| WorkArrival {
                    at_seconds: record.at.as_secs_f64(),
                    work_seconds: profile.work_seconds(record.kind, record.bytes),
                });
                let arrivals: Vec<_> = arrivals.collect();
                let duration = arrivals.last().map_or(0.0, |last| last.at_seconds);
                ArrivalCurve::of_trace(&WorkTrace::new(arrivals, duration)?)
                    .map_err(|error| error.on(&self.tenant))?
            }
            (None, Some(_), None) => {
                return Err(Error::invalid("a tenant with a trace needs a profile")
                    .on(&self.tenant)
                    .hint("name a profile with --profile FILE"));
            }
            _ => {
                return Err(Error::invalid(
                    "a tenant needs either a curve or a trace, and not both",
                )
                .on(&self.tenant));
            }
        };
        let tenant = TenantName::new(&self.tenant)?;
        let (slo_seconds, violation) = (self.slo_seconds, self.violation);
        Ok(PlacedTenant { tenant, slo_seconds, violation, curve })
    }
}

fn placed(tenants: &[PlacedTenant], placement: &Placement) -> Result<PlacementOutcome> {
    let admission = &placement.admission;
    let mut admitted =
        admission.tenants().iter().zip(admission.latencies()).zip(admission.priorities());
    let mut rows = vec![];
    for (tenant, target) in tenants.iter().zip(&placement.targets) {
        // Tenants that were placed are admitted in this order.
        let own = target.and_then(|_| admitted.next());
        let refusal = match target {
            Some(_) => None,
            None => refusal(tenant, placement)?,
        };
        rows.push(TenantOutcome {
            tenant: tenant.tenant.to_string(),
            slo_seconds: tenant.slo_seconds,
            violation: tenant.violation,
            target: target.map(|target| admission.queues()[target].name.clone()),
            priority: own.as_ref().map(|(_, priority)| *priority),
            bucket: own.as_ref().and_then(|((own, _), _)| own.buckets.first().copied()),
            latency_seconds: own.and_then(|((_, latency), _)| latency),
            refusal,
        });
    }
    let count = placement.targets.iter().flatten().count();
    let refused = rows.len() - count;
    Ok(PlacementOutcome { placed: count, refused, programs: placement.programs, tenants: rows })
}

/// Why a tenant does not fit on the target with the least work.
fn refusal(tenant: &PlacedTenant, placement: &Placement) -> Result<Option<String>> {
    let admission = &placement.admission;
    let mut loads = vec![0.0; admission.queues().len()];
    for admitted in admission.tenants() {
        for (flow, bucket) in admitted.candidate.flows.iter().zip(&admitted.buckets) {
            loads[flow.queue] += bucket.rate;
        }
    }
    let least = (0..loads.len()).min_by(|one, other| loads[*one].total_cmp(&loads[*other]));
    let Some(least) = least else { return Ok(Some("there are no targets".to_owned())) };
    let refusal = admission.refusal(&tenant.on(least), &[])?;
    let name = &admission.queues()[least].name;
    Ok(refusal.map(|refusal| format!("on {name}, which has the least work: {refusal}")))
}

fn text(placed: &PlacementOutcome) -> String {
    let row = |one: &TenantOutcome| {
        vec![
            printable(&one.tenant),
            milliseconds(one.slo_seconds),
            bound_name(one.violation),
            one.target.as_deref().map_or_else(|| "none".to_owned(), printable),
            one.bucket.map_or_else(String::new, |bucket| format!("{:.4}", bucket.rate)),
            one.bucket.map_or_else(String::new, |bucket| milliseconds(bucket.burst_seconds)),
            one.target.as_ref().map_or_else(String::new, |_| latency(one.latency_seconds)),
        ]
    };
    let rows: Vec<_> = placed.tenants.iter().map(row).collect();
    let header = ["tenant", "SLO", "bound", "target", "rate", "burst", "longest latency"];
    let mut lines = vec![
        table(&header, &rows),
        format!("{} placed, {} refused", placed.placed, placed.refused),
    ];
    lines.extend(placed.tenants.iter().filter_map(|one| one.refusal.as_deref()).map(printable));
    lines.join("\n")
}
