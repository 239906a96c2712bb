//! The traffic for which a tenant asks a promise, and how much work it brings to each target.

use std::collections::BTreeMap;
use std::fmt;

use nacre_object::limits::MAX_REQUEST_BYTES;
use nacre_object::{Error, ObjectId, ObjectName, PoolName, Result, TargetName, TenantName};
use nacre_qos::limits::{DEFAULT_QUEUE_BYTES, DEFAULT_QUEUE_REQUESTS};
use nacre_qos::trace::{Trace, TraceRecord};
use nacre_qos::{
    ArrivalCurve, Estimator, IoKind, Layout, Profile, ProfileRow, QueueFlow, QueueTraces, RateBurst,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::records::{SloState, StoredProfile};

/// The most requests a second that a promise can cover. No machine serves more.
const MAX_RATE: f64 = 1e9;

/// Requests of one kind and size at a rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Whether they read or write.
    pub kind: IoKind,
    /// The size of each.
    pub bytes: u64,
    /// How many a second, on average.
    pub per_second: f64,
    /// How many may come at once.
    pub burst: u32,
}

/// How the objects of a tenant are spread over the targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spread {
    /// Many objects: each target gets the same fraction of the rate. A burst may go to one target.
    #[default]
    Even,
    /// Few objects: all requests may go to one target, so capacity for all of them is reserved on
    /// each target.
    Anywhere,
}

/// Returns the target that stores an object of a trace.
pub type Locator<'a> = dyn Fn(&ObjectId) -> TargetName + 'a;

/// The expected traffic of a tenant.
pub enum Traffic<'a> {
    /// Equal requests at this rate.
    Rate(Rate, Spread),
    /// Requests like those of a recorded trace.
    Trace {
        /// The requests.
        trace: &'a Trace,
        /// The pool of its objects.
        pool: PoolName,
        /// The size of the objects of which a volume in the trace consists.
        block_bytes: u64,
        /// How requests are divided among the targets.
        estimator: Estimator,
        /// Returns the target that stores an object.
        locate: &'a Locator<'a>,
    },
    /// Traffic like that of a watched tenant: at most this much work at each target.
    Curves(BTreeMap<TargetName, ArrivalCurve>),
}

impl fmt::Debug for Traffic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Traffic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(Rate { kind, bytes, per_second, burst }, spread) => {
                let kind = kind.as_str();
                write!(f, "{per_second} {kind}s of {bytes} bytes a second, {burst} at once")?;
                match spread {
                    Spread::Even => Ok(()),
                    Spread::Anywhere => write!(f, ", all on one target at worst"),
                }
            }
            Self::Curves(curves) => write!(f, "what was watched on {} targets", curves.len()),
            Self::Trace { trace, estimator, .. } => {
                write!(f, "a trace of {} requests ({estimator})", trace.records.len())
            }
        }
    }
}

impl Traffic<'_> {
    /// Computes the work that the traffic of a tenant brings to each target. Targets are numbered in
    /// the order of `state.profiles`.
    ///
    /// # Errors
    /// `Invalid` if the traffic is malformed; `NotFound` if no target has a profile, or if the only
    /// target of the tenant has none; the errors of the trace.
    pub(crate) fn flows(&self, state: &SloState, tenant: &TenantName) -> Result<Vec<QueueFlow>> {
        if state.profiles.is_empty() {
            return Err(Error::not_found("no target has a profile")
                .hint("measure what requests cost: nacre slo profile"));
        }
        match self {
            Self::Rate(rate, spread) => match state.only_target(tenant) {
                Some(target) => rate.flow_at(state, target),
                None => rate.flows(state, *spread),
            },
            Self::Curves(curves) => {
                let flow = |(target, curve): (&TargetName, &ArrivalCurve)| {
                    let queue = state.profiles.keys().position(|known| known == target);
                    let queue = queue.ok_or_else(|| without_profile(target))?;
                    Ok(QueueFlow { queue, curve: curve.clone() })
                };
                curves.iter().map(flow).collect()
            }
            Self::Trace { trace, pool, block_bytes, estimator, locate } => {
                let targets: Vec<_> = state.profiles.keys().collect();
                let layout = TraceLayout { targets, pool, locate };
                let profile = slowest(state.profiles.values())?;
                let traces = QueueTraces::new(trace, &profile, &layout, *block_bytes, *estimator)?;
                let flows = traces.flows()?;
                match estimator {
                    Estimator::PerTarget | Estimator::Uniform => Ok(flows),
                    Estimator::Optimistic | Estimator::Pessimistic => {
                        Ok(on_every_target(flows, state.profiles.len()))
                    }
                }
            }
        }
    }
}

impl Traffic<'_> {
    /// The target of a request of a trace. `None` if this traffic is no trace, or if the trace does
    /// not name the object.
    pub(crate) fn target_of(&self, record: &TraceRecord) -> Result<Option<TargetName>> {
        let Self::Trace { trace, pool, block_bytes, locate, .. } = self else { return Ok(None) };
        let Some(name) = trace.object(record, *block_bytes) else { return Ok(None) };
        let object = ObjectId { pool: pool.clone(), name: ObjectName::new(&*name)? };
        Ok(Some(locate(&object)))
    }
}

/// The error for traffic that passes a link although the sizes of its requests are unknown.
pub(crate) fn without_sizes(link: &str) -> Error {
    Error::unsupported(format!("watched curves do not say what requests bring to {link}"))
        .hint("give --rate and --size, or --trace-file")
}

fn without_profile(target: &TargetName) -> Error {
    Error::not_found(format!("the target {target} has no profile"))
        .hint("measure what requests cost there: nacre slo profile")
}

/// Copies the traffic of the single queue that models all targets to each target.
fn on_every_target(flows: Vec<QueueFlow>, targets: usize) -> Vec<QueueFlow> {
    let Some(flow) = flows.into_iter().next() else { return vec![] };
    (0..targets).map(|queue| QueueFlow { queue, curve: flow.curve.clone() }).collect()
}

impl Rate {
    /// The work if all requests go to one target.
    fn flow_at(&self, state: &SloState, target: &str) -> Result<Vec<QueueFlow>> {
        let queue = state.profiles.keys().position(|known| known.as_str() == target);
        let Some(queue) = queue else { return Err(without_profile(&TargetName::new(target)?)) };
        let flows = self.flows(state, Spread::Anywhere)?;
        Ok(flows.into_iter().filter(|flow| flow.queue == queue).collect())
    }

    /// The work at each target.
    pub(crate) fn flows(&self, state: &SloState, spread: Spread) -> Result<Vec<QueueFlow>> {
        let is_rate = self.per_second > 0.0 && self.per_second <= MAX_RATE;
        if !is_rate || self.burst == 0 {
            let message = format!(
                "the rate of {} requests a second with bursts of {} is out of range",
                self.per_second, self.burst
            );
            return Err(Error::invalid(message).hint(format!(
                "give a rate above 0 and at most {MAX_RATE:e}, and a burst above 0"
            )));
        }
        if self.bytes == 0 || self.bytes > MAX_REQUEST_BYTES as u64 {
            return Err(Error::invalid(format!(
                "the size of requests, {} bytes, is out of range",
                self.bytes
            ))
            .hint(format!("give a size from 1 to {MAX_REQUEST_BYTES} bytes")));
        }
        let (requests, bytes) = (self.burst as usize, self.bytes * u64::from(self.burst));
        if requests > DEFAULT_QUEUE_REQUESTS || bytes > DEFAULT_QUEUE_BYTES {
            return Err(Error::invalid(format!("a burst of {requests} requests with {bytes} bytes does not fit into a queue"))
                .hint(format!(
                    "lower the burst: a queue takes {DEFAULT_QUEUE_REQUESTS} requests and {DEFAULT_QUEUE_BYTES} bytes \
                     at most"
                )));
        }
        let share = match spread {
            Spread::Even => 1.0 / state.profiles.len() as f64,
            Spread::Anywhere => 1.0,
        };
        let flow = |(queue, stored): (usize, &StoredProfile)| {
            let work = stored.profile.work_seconds(self.kind, self.bytes);
            let line = RateBurst {
                rate: work * self.per_second * share,
                burst_seconds: work * f64::from(self.burst),
            };
            Ok(QueueFlow { queue, curve: ArrivalCurve::lower_envelope(&[line])? })
        };
        state.profiles.values().enumerate().map(flow).collect()
    }
}

/// The layout that places the objects of a trace on the existing targets.
struct TraceLayout<'a> {
    targets: Vec<&'a TargetName>,
    pool: &'a PoolName,
    locate: &'a Locator<'a>,
}

impl Layout for TraceLayout<'_> {
    fn targets(&self) -> usize {
        self.targets.len()
    }

    fn locate(&self, object: Option<&str>) -> Result<Vec<usize>> {
        let Some(object) = object else {
            return Err(Error::invalid("the trace names no objects")
                .hint("give a rate: without object names, the target of a request is unknown"));
        };
        let object = ObjectId { pool: self.pool.clone(), name: ObjectName::new(object)? };
        let target = (self.locate)(&object);
        let at = self.targets.iter().position(|known| **known == target);
        match at {
            Some(at) => Ok(vec![at]),
            None => Err(without_profile(&target).on(&object)),
        }
    }
}

/// A profile with the lowest bandwidth of all targets at each size. So it never underestimates the
/// work of a request, whatever the request's target.
fn slowest<'a>(profiles: impl Iterator<Item = &'a StoredProfile> + Clone) -> Result<Profile> {
    let rows = profiles.clone().flat_map(|stored| stored.profile.rows());
    let mut sizes: Vec<_> = rows.map(|row| row.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let bandwidth = |kind: IoKind, bytes: u64| {
        let work = profiles.clone().map(|stored| stored.profile.work_seconds(kind, bytes));
        bytes as f64 / work.fold(0.0, f64::max)
    };
    let row = |bytes| ProfileRow {
        bytes,
        read_bytes_per_second: bandwidth(IoKind::Read, bytes),
        write_bytes_per_second: bandwidth(IoKind::Write, bytes),
    };
    Profile::new(sizes.into_iter().map(row).collect())
}

/// A number that changes whenever a target is added or removed. A promise is valid for one set of
/// targets only.
pub fn placement_epoch<'a>(targets: impl Iterator<Item = &'a TargetName>) -> u64 {
    epoch_of(targets.map(ToString::to_string))
}

/// A number that changes whenever one of the names does.
pub(crate) fn epoch_of(names: impl Iterator<Item = String>) -> u64 {
    let names: Vec<_> = names.collect();
    // JSON libraries of some languages support no integers above 2^53.
    xxh3_64(names.join("\n").as_bytes()) & ((1 << 53) - 1)
}
