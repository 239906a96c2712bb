//! Computes from a trace how much work a tenant brings to each queue, by the methods of the SLO
//! thesis (*Supporting Tail Latency SLOs in Ceph*).

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use nacre_object::{Error, Result};

use super::{QueueFlow, Sharing};
use crate::trace::Trace;
use crate::trace::TraceFormat;
use crate::{ArrivalCurve, IoKind, Profile, WorkArrival, WorkTrace};

/// How the requests of a trace are divided among the targets of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Estimator {
    /// Each target gets the requests on the objects that it stores.
    #[default]
    PerTarget,
    /// Like [`Estimator::PerTarget`], but a tenant has the same token bucket at all targets, as in
    /// the thesis.
    Uniform,
    /// Models all targets as one target that is as fast as all of them together. It admits too many
    /// tenants if one target stores most of the objects.
    Optimistic,
    /// Assumes that all requests of a tenant may go to the same target. It admits too few tenants
    /// if their objects are spread over many targets.
    Pessimistic,
}

impl Estimator {
    /// Every estimator, in declaration order.
    pub const ALL: [Self; 4] =
        [Self::PerTarget, Self::Uniform, Self::Optimistic, Self::Pessimistic];

    /// The word for this estimator on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PerTarget => "per-target",
            Self::Uniform => "uniform",
            Self::Optimistic => "optimistic",
            Self::Pessimistic => "pessimistic",
        }
    }

    /// Whether the buckets of a tenant may differ.
    pub const fn sharing(self) -> Sharing {
        match self {
            Self::Uniform => Sharing::Uniform,
            Self::PerTarget | Self::Optimistic | Self::Pessimistic => Sharing::OwnBuckets,
        }
    }

    /// The number of queues with which this estimator models so many targets.
    pub const fn queues(self, targets: usize) -> usize {
        match self {
            Self::PerTarget | Self::Uniform => targets,
            Self::Optimistic | Self::Pessimistic => 1,
        }
    }
}

impl fmt::Display for Estimator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Estimator {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|estimator| estimator.as_str() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            Error::invalid(format!("there is no estimator {text:?}"))
                .hint(format!("the estimators are {names}"))
        })
    }
}

/// Says which targets store an object.
pub trait Layout {
    /// How many targets there are.
    fn targets(&self) -> usize;

    /// The indices of the targets that store this object, first the one that serves its reads. A
    /// write goes to all of them. `object` is `None` if the trace names no objects.
    ///
    /// # Errors
    /// An error of the layout, if it cannot place the object.
    fn locate(&self, object: Option<&str>) -> Result<Vec<usize>>;
}

/// The work that a trace brings to each queue.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueTraces {
    /// By the index of the queue. Queues without work are left out.
    pub traces: BTreeMap<usize, WorkTrace>,
}

impl QueueTraces {
    /// Computes the work that `trace` brings to each queue. A volume in the trace is assumed to
    /// consist of objects of `block_bytes`.
    ///
    /// # Errors
    /// `Unsupported` if the clock of the trace has steps of a second; `Invalid` if the layout names
    /// no target; the errors of the layout.
    pub fn new(
        trace: &Trace,
        profile: &Profile,
        layout: &dyn Layout,
        block_bytes: u64,
        estimator: Estimator,
    ) -> Result<Self> {
        if trace.clock_step.as_secs() > 0 {
            return Err(crate::trace::one_second_clock(TraceFormat::Tencent.as_str()));
        }
        let mut by_queue: BTreeMap<usize, Vec<WorkArrival>> = BTreeMap::new();
        for record in &trace.records {
            let object = trace.object(record, block_bytes);
            let targets = layout.locate(object.as_deref())?;
            let (Some(first), true) =
                (targets.first(), targets.iter().all(|target| *target < layout.targets()))
            else {
                return Err(Error::invalid(format!(
                    "the layout puts an object on the targets {targets:?}; their indices must be below {}",
                    layout.targets()
                ))
                .on(object.unwrap_or_default()));
            };
            let work = profile.work_seconds(record.kind, record.bytes);
            let loaded = match record.kind {
                IoKind::Read => std::slice::from_ref(first),
                IoKind::Write => &targets[..],
            };
            let mut add = |queue, work_seconds| {
                let at_seconds = record.at.as_secs_f64();
                by_queue.entry(queue).or_default().push(WorkArrival { at_seconds, work_seconds });
            };
            match estimator {
                Estimator::PerTarget | Estimator::Uniform => {
                    loaded.iter().for_each(|target| add(*target, work));
                }
                Estimator::Optimistic => {
                    add(0, work * loaded.len() as f64 / layout.targets() as f64);
                }
                Estimator::Pessimistic => add(0, work),
            }
        }
        let duration = trace.records.last().map_or(0.0, |record| record.at.as_secs_f64());
        let traces = by_queue
            .into_iter()
            .map(|(queue, arrivals)| Ok((queue, WorkTrace::new(arrivals, duration)?)))
            .collect::<Result<_>>()?;
        Ok(Self { traces })
    }

    /// The tenant's traffic at each queue, for a [`Candidate`](super::Candidate).
    ///
    /// # Errors
    /// `Invalid` if all requests at a queue arrived at the same time.
    pub fn flows(&self) -> Result<Vec<QueueFlow>> {
        let flow = |(queue, trace): (&usize, &WorkTrace)| {
            Ok(QueueFlow { queue: *queue, curve: ArrivalCurve::of_trace(trace)? })
        };
        self.traces.iter().map(flow).collect()
    }
}
