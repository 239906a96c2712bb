//! Every bound of this crate with its reason.

use std::time::Duration;

/// The most rows of a profile. The longest public profile has 132.
pub const MAX_PROFILE_ROWS: usize = 4096;
/// The most requests in one trace. A curve needs 16 bytes of memory for each. A trace of a day at
/// 190 requests a second fits.
pub const MAX_TRACE_RECORDS: usize = 16 << 20;
/// The most bytes in one line of a trace. blkparse writes the longest lines, with some dozens of
/// fields.
pub const MAX_TRACE_LINE_BYTES: usize = 4096;
/// The most bytes that one request of a trace moves. No device does more in one operation.
pub const MAX_TRACE_REQUEST_BYTES: u64 = 1 << 32;
/// The most objects, files and volumes that one trace names. Their names stay in memory.
pub const MAX_TRACE_NAMES: usize = 1 << 20;
/// The most bytes of all names in one trace. A million names of the usual length fit.
pub const MAX_TRACE_NAME_BYTES: usize = 64 << 20;
/// The most time slots into which a trace is cut. Each slot needs one number in memory while the
/// trace is read.
pub const MAX_SLOTS: usize = 16 << 20;
/// The number of rates for which the burst of a trace is computed. The steps are a thousandth of
/// the capacity, as in the published code of the papers that this crate follows.
pub const CURVE_RATES: usize = 1000;
/// The number of rates at which live traffic is measured. Each request updates one leaky bucket for
/// each rate.
pub const ENVELOPE_RATES: usize = 64;
/// The most segments of an arrival curve. Admission solves a linear program, which has a row for
/// each segment of each tenant at each target.
pub const MAX_CURVE_SEGMENTS: usize = 12;
/// Segments of an arrival curve for time spans of this length or more are pruned first. They matter
/// only for latencies that nobody promises.
pub const LATE_SEGMENT: Duration = Duration::from_secs(30);
/// The most tenants with a promise. Each takes a few kilobytes.
pub const MAX_TENANTS: usize = 65_536;
/// The most queues (targets and links) that the requests of one tenant pass. Each adds some dozen
/// rows to the linear program that admission solves.
pub const MAX_QUEUES_OF_TENANT: usize = 1024;
/// The longest SLO. Nobody calls a latency of an hour a tail latency.
pub const MAX_SLO_SECONDS: f64 = 3600.0;
/// The most tenants of one scheduler. A tenant without requests takes some hundred bytes.
pub const MAX_SCHEDULED_TENANTS: usize = 65_536;
/// The most token buckets of one tenant at one target: one for each segment of an arrival curve,
/// and some spare ones.
pub const MAX_BUCKETS: usize = 16;
/// The most tenants among which an order of service chooses. An order program reads all of them for
/// each decision.
pub const MAX_OFFERED_TENANTS: usize = 64;
/// The lowest and the highest weight: a thousandth and a thousand times the default.
pub const MIN_WEIGHT: f64 = 1e-3;
/// See [`MIN_WEIGHT`].
pub const MAX_WEIGHT: f64 = 1e3;
/// The most requests of one tenant that wait at one target, unless the tenant's settings say
/// otherwise. One client has some dozens of requests in flight.
pub const DEFAULT_QUEUE_REQUESTS: usize = 4096;
/// The most bytes of the waiting requests of one tenant, which are kept in memory.
pub const DEFAULT_QUEUE_BYTES: u64 = 64 << 20;
/// The time over which the scheduler averages a tenant's rate of service. From this rate it
/// estimates how long the tenant's requests will wait.
pub const DRAIN_WINDOW: Duration = Duration::from_secs(1);
/// A tenant's rate of service is known once its requests have waited for this long within
/// [`DRAIN_WINDOW`].
pub const LEAST_BACKLOG: Duration = Duration::from_millis(100);
/// The shortest time to wait after a refusal. Serving a retry costs as much as refusing it.
pub const MIN_RETRY_WAIT: Duration = Duration::from_millis(1);
/// The longest time to wait after a refusal, also if the rate of service is unknown.
pub const MAX_RETRY_WAIT: Duration = Duration::from_secs(10);

const _: () = assert!(MAX_BUCKETS >= MAX_CURVE_SEGMENTS);
const _: () = assert!(MIN_RETRY_WAIT.as_nanos() < MAX_RETRY_WAIT.as_nanos());
const _: () = assert!(MAX_CURVE_SEGMENTS < CURVE_RATES);
