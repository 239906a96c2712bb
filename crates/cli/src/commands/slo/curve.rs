//! `nacre slo curve`: the arrival curves of a trace, target by target.

use std::path::PathBuf;

use nacre_object::{Error, ObjectName, PoolName, Result, TargetName};
use nacre_placement::{Placement, Target};
use nacre_qos::trace::TraceFormat;
use nacre_qos::{ArrivalCurve, Dip, Estimator, Layout, Profile, QueueTraces};
use serde::Serialize;

use super::input::{read_json, read_trace};
use super::{milliseconds, units};
use crate::out::{Out, note, table};

/// Which trace, and on what
#[derive(Debug, clap::Args)]
pub struct CurveArguments {
    /// The trace; `-` is standard input
    #[arg(value_name = "TRACE")]
    trace_file: PathBuf,
    /// The format of the trace (default: the one that its first line names): nacre,
    /// priority-meister, msr, tencent, alibaba, fio, blkparse
    #[arg(long)]
    format: Option<TraceFormat>,
    /// A file in JSON with the cost of requests on a target (docs/slo.md)
    #[arg(long, value_name = "FILE")]
    profile: PathBuf,
    /// The number of equal targets over which the objects are spread
    #[arg(long, value_name = "N", default_value_t = 1)]
    targets: usize,
    /// How requests are assumed to be divided among the targets: `per-target` (each target gets the
    /// requests on its objects), `uniform` (like `per-target`, but a tenant has the same token
    /// bucket on all targets), `optimistic` (all targets work as one fast target), `pessimistic`
    /// (one target may get all requests)
    #[arg(long, value_name = "NAME", default_value_t)]
    estimator: Estimator,
    /// The size of the objects into which a traced volume is divided, such as 4194304 or 4M
    #[arg(long, value_name = "BYTES", default_value_t = 4 << 20, value_parser = units::size)]
    block_bytes: u64,
}

/// What comes of it.
#[derive(Debug, Serialize)]
struct Curves {
    requests: usize,
    duration_seconds: f64,
    estimator: &'static str,
    /// Sizes at which the profile uses less bandwidth than was measured.
    dips: Vec<Dip>,
    targets: Vec<TargetCurve>,
}

#[derive(Debug, Serialize)]
struct TargetCurve {
    target: String,
    requests: usize,
    work_seconds: f64,
    least_rate: f64,
    curve: ArrivalCurve,
}

/// Objects over targets, as a cluster with these targets places them.
struct Spread {
    targets: usize,
    placement: Placement,
    pool: PoolName,
}

impl Spread {
    fn new(targets: usize) -> Result<Self> {
        let target = |number| Ok(Target::new(TargetName::new(name(number))?));
        let placement = Placement::new((0..targets).map(target).collect::<Result<_>>()?)?;
        Ok(Self { targets, placement, pool: PoolName::new("data")? })
    }
}

fn name(target: usize) -> String {
    format!("storage.{target}")
}

impl Layout for Spread {
    fn targets(&self) -> usize {
        self.targets
    }

    fn locate(&self, object: Option<&str>) -> Result<Vec<usize>> {
        match (object, self.targets) {
            (_, 1) => Ok(vec![0]),
            (Some(object), _) => {
                let object = ObjectName::new(object)?;
                let target = self.placement.locate_object(&self.pool, &object);
                let at = self.placement.targets().iter().position(|own| own.name == *target);
                Ok(at.into_iter().collect())
            }
            (None, _) => Err(Error::invalid("the trace names no objects")
                .hint("without object names the target of a request is unknown: use --targets 1")),
        }
    }
}

/// Makes the curves, and shows them.
pub(super) fn curve(arguments: &CurveArguments, out: Out) -> Result<()> {
    let profile: Profile = read_json(&arguments.profile, "profile")?;
    let trace = read_trace(&arguments.trace_file, arguments.format)?;
    let spread = Spread::new(arguments.targets)?;
    let (block_bytes, estimator) = (arguments.block_bytes, arguments.estimator);
    let traces = QueueTraces::new(&trace, &profile, &spread, block_bytes, estimator)?;
    let dips = profile.dips();
    if !dips.is_empty() {
        note(&format!(
            "the bandwidth of the profile falls at {} sizes; the lower one is used before them, too",
            dips.len()
        ));
    }
    let targets = traces.flows()?.into_iter().zip(traces.traces.values()).map(|(flow, trace)| {
        Ok(TargetCurve {
            target: match estimator {
                Estimator::PerTarget | Estimator::Uniform => name(flow.queue),
                Estimator::Optimistic | Estimator::Pessimistic => "each".to_owned(),
            },
            requests: trace.arrivals().len(),
            work_seconds: trace.work_seconds(),
            least_rate: trace.least_rate()?,
            curve: flow.curve,
        })
    });
    let curves = Curves {
        requests: trace.records.len(),
        duration_seconds: trace.records.last().map_or(0.0, |record| record.at.as_secs_f64()),
        estimator: estimator.as_str(),
        dips,
        targets: targets.collect::<Result<_>>()?,
    };
    out.show(&curves, || text(&curves))
}

fn text(curves: &Curves) -> String {
    let mut parts = vec![format!(
        "{} requests in {:.3} s; work is in milliseconds of the target's time",
        curves.requests, curves.duration_seconds
    )];
    for target in &curves.targets {
        parts.push(format!(
            "\n{}: {} requests, busy for {:.1}% of the time",
            target.target,
            target.requests,
            target.least_rate * 100.0
        ));
        let rows: Vec<_> = target
            .curve
            .segments()
            .iter()
            .map(|segment| {
                vec![
                    milliseconds(segment.start_seconds),
                    milliseconds(segment.work_seconds),
                    format!("{:.4}", segment.rate),
                    milliseconds(segment.line().burst_seconds),
                ]
            })
            .collect();
        parts.push(table(&["time span", "work", "rate", "burst of this rate"], &rows));
    }
    parts.join("\n")
}
