//! `nacre slo admit` and `whatif`: a promise, or the reason why not.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nacre::{Cluster, ClusterFile};
use nacre_node::SloTargets;
use nacre_object::{
    Error, ErrorKind, ObjectId, ObjectName, PoolName, Result, TargetName, TenantName,
};
use nacre_qos::trace::{Trace, TraceFormat};
use nacre_qos::{ArrivalCurve, Estimator, IoKind, Link};
use nacre_slo::{Ask, DirectTraffic, Outcome, Promise, Rate, SloState, Spread, Traffic};
use serde_json::json;

use super::super::route::check_slo_change;
use super::input::{read_json, read_trace};
use super::watch::Watched;
use super::{milliseconds, units};
use crate::out::{Out, note};

/// Who is to be promised what, for which traffic
#[derive(Debug, clap::Args)]
pub struct AdmitArguments {
    /// The tenant; `nacre entity tenant` and `nacre slo pool` assign requests to it
    tenant: TenantName,
    /// The promised latency of the tenant's requests, such as 20ms or 0.5s
    #[arg(long, value_name = "TIME", value_parser = units::latency)]
    latency: Duration,
    /// The share of the tenant's requests that may take longer, such as 0.001 (default: none). Only
    /// for a tenant whose bursts are independent of those of other tenants
    #[arg(long, value_name = "PROBABILITY", value_parser = units::violation)]
    violation: Option<f64>,
    /// The percentile of the measured latencies that `nacre slo status` compares with the promise
    #[arg(long, value_name = "PERCENT", default_value_t = 99.0)]
    percentile: f64,
    /// The tenant's rate, in requests a second
    #[arg(
        long,
        value_name = "PER_SECOND",
        required_unless_present_any = ["trace_file", "curves"],
        requires = "size"
    )]
    rate: Option<f64>,
    /// The size of each request, such as 4096 or 4k
    #[arg(long, value_name = "BYTES", value_parser = units::size)]
    size: Option<u64>,
    /// The kind of the requests
    #[arg(long, value_name = "KIND", default_value = "write", value_parser = ["read", "write"])]
    op: String,
    /// The most requests that arrive at once
    #[arg(long, value_name = "REQUESTS", default_value_t = 1)]
    burst: u32,
    /// The speed of its client's network link, as 1Gbit or 125MB a second; without it the link counts as fast enough
    #[arg(long, value_name = "SPEED", value_parser = units::speed)]
    link: Option<Link>,
    /// Replace the promise that the tenant has
    #[arg(long)]
    replace: bool,
    /// Assume that all the tenant's requests may hit one target, because it has few objects
    #[arg(long)]
    few_objects: bool,
    /// A file with a recorded trace of the tenant's requests, instead of `--rate`
    #[arg(long = "trace-file", value_name = "FILE", conflicts_with = "rate")]
    trace_file: Option<PathBuf>,
    /// A file with the output of `nacre slo watch --json`, instead of `--rate`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rate", "trace_file"])]
    curves: Option<PathBuf>,
    /// The format of the trace (default: the one that its first line names): nacre,
    /// priority-meister, msr, tencent, alibaba, fio, blkparse
    #[arg(long, requires = "trace_file")]
    format: Option<TraceFormat>,
    /// The pool of the trace's objects
    #[arg(long, default_value = "data")]
    pool: PoolName,
    /// The size of the objects into which a traced volume is divided, such as 4194304 or 4M
    #[arg(long, value_name = "BYTES", default_value_t = 4 << 20, value_parser = units::size)]
    block_bytes: u64,
    /// How requests are assumed to be divided among the targets: `per-target` (each target gets the
    /// requests on its objects), `uniform` (like `per-target`, but a tenant has the same token
    /// bucket on all targets), `optimistic` (all targets work as one fast target), `pessimistic`
    /// (one target may get all requests)
    #[arg(long, value_name = "NAME", default_value_t)]
    estimator: Estimator,
}

/// Whether the answer takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// It does.
    Admit,
    /// It is a question only.
    WhatIf,
}

/// Asks, and shows the answer. A refusal ends with status 1.
pub(super) async fn admit(
    arguments: &AdmitArguments,
    effect: Effect,
    file: &ClusterFile,
    out: Out,
) -> Result<()> {
    let cluster = Cluster::reach(file)?;
    let format = arguments.format;
    let trace = arguments.trace_file.as_deref().map(|path| read_trace(path, format)).transpose()?;
    let places = match &trace {
        Some(trace) => places(trace, arguments, &SloTargets::new(file, &cluster)?).await?,
        None => BTreeMap::new(),
    };
    let locate = |object: &ObjectId| places[&object.name].clone();
    let watched = arguments.curves.as_deref().map(watched_curves).transpose()?;
    let traffic = match (&trace, arguments.rate, arguments.size) {
        _ if watched.is_some() => Traffic::Curves(watched.unwrap_or_default()),
        (Some(trace), ..) => Traffic::Trace {
            trace,
            pool: arguments.pool.clone(),
            block_bytes: arguments.block_bytes,
            estimator: arguments.estimator,
            locate: &locate,
        },
        (None, Some(per_second), Some(bytes)) => {
            let kind = if arguments.op == "read" { IoKind::Read } else { IoKind::Write };
            let spread = if arguments.few_objects { Spread::Anywhere } else { Spread::Even };
            Traffic::Rate(Rate { kind, bytes, per_second, burst: arguments.burst }, spread)
        }
        _ => {
            return Err(Error::invalid("the tenant's traffic is not given")
                .hint("give --rate and --size, or --trace-file, or --curves"));
        }
    };
    let ask = Ask {
        tenant: arguments.tenant.clone(),
        slo_seconds: arguments.latency.as_secs_f64(),
        violation: arguments.violation,
        percentile: arguments.percentile,
        traffic,
        client_link: arguments.link,
        replaces: arguments.replace,
    };
    let direct = match direct_traffic(&SloTargets::new(file, &cluster)?).await {
        Err(error) if error.kind() == ErrorKind::Denied => {
            note(&format!("clients that pass no gateway are not considered: {error}"));
            BTreeMap::new()
        }
        measured => measured?,
    };
    let slos = cluster.slos().beside(&direct);
    let mut outcome = slos.what_if(&ask).await?;
    if let Outcome::Admitted(promise) = &outcome {
        let promised = |slo: &mut SloState| {
            slo.promises.insert(ask.tenant.clone(), promise.clone());
        };
        check_slo_change(file, &cluster, Some(&ask.tenant), promised).await?;
        if effect == Effect::Admit {
            outcome = slos.admit(&ask).await?;
        }
    }
    match outcome {
        Outcome::Admitted(promise) => {
            let value =
                json!({ "tenant": ask.tenant.as_str(), "admitted": true, "promise": promise });
            out.show(&value, || admitted_text(&ask.tenant, &promise, effect))
        }
        Outcome::Refused(refusal) => {
            let mut text = refusal.to_string();
            let alone = match direct.is_empty() {
                true => None,
                false => Some(cluster.slos().what_if(&ask).await?),
            };
            if matches!(alone, Some(Outcome::Admitted(_))) {
                text = crowded_by(&direct, &text);
            }
            Err(Error::exhausted(text).hint("nothing has changed; see `nacre slo advise` for moves after which the promise is possible"))
        }
    }
}

/// A refusal because of clients that leave no room for a promise.
fn crowded_by(direct: &BTreeMap<TargetName, DirectTraffic>, refusal: &str) -> String {
    let part = |(target, direct): (&TargetName, &DirectTraffic)| {
        format!("{:.0}% of the time of {target}", direct.load * 100.0)
    };
    let parts: Vec<_> = direct.iter().map(part).collect();
    let parts = parts.join(", ");
    format!(
        "clients that pass no gateway take {parts} now; without them the promise would fit, but in the time that \
         they leave, {refusal}"
    )
}

fn admitted_text(tenant: &TenantName, promise: &Promise, effect: Effect) -> String {
    let word = match effect {
        Effect::Admit => "admitted",
        Effect::WhatIf => "would be admitted",
    };
    let requests = match promise.violation {
        None => "no request".to_owned(),
        Some(violation) => {
            format!("if tenants are independent, at most {violation} of the requests")
        }
    };
    format!(
        "{word}: {}; {requests} within these limits takes longer than {}",
        promise.describe(tenant),
        milliseconds(promise.bound_seconds)
    )
}

/// The direct traffic to each target that has some: the most that a gateway has measured.
pub(super) async fn direct_traffic(
    targets: &SloTargets,
) -> Result<BTreeMap<TargetName, DirectTraffic>> {
    let mut measured = BTreeMap::<TargetName, DirectTraffic>::new();
    for target in targets.reports().await?.into_iter().flat_map(|(_, targets)| targets) {
        let Some(direct) = target.direct.filter(|direct| direct.load > 0.0) else { continue };
        let most = measured.entry(TargetName::new(target.target)?).or_insert(direct);
        if direct.load > most.load {
            *most = direct;
        }
    }
    Ok(measured)
}

/// The curves that `nacre slo watch` has printed.
fn watched_curves(path: &Path) -> Result<BTreeMap<TargetName, ArrivalCurve>> {
    let watched: Watched = read_json(path, "output of `nacre slo watch --json`")?;
    let curve = |(target, curve)| Ok((TargetName::new(target)?, curve));
    watched.curves.into_iter().map(curve).collect()
}

/// Where the objects of a trace are.
async fn places(
    trace: &Trace,
    arguments: &AdmitArguments,
    targets: &SloTargets,
) -> Result<BTreeMap<ObjectName, TargetName>> {
    let mut places = BTreeMap::new();
    for record in &trace.records {
        let Some(name) = trace.object(record, arguments.block_bytes) else { continue };
        let name = ObjectName::new(name)?;
        if let Entry::Vacant(place) = places.entry(name.clone()) {
            let object = ObjectId { pool: arguments.pool.clone(), name };
            place.insert(targets.locate(&object).await?);
        }
    }
    Ok(places)
}
