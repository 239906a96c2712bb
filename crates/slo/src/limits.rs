//! Every bound of this crate with its reason.

use std::time::Duration;

#[cfg(feature = "programs")]
use nacre_program::Budget;
use nacre_qos::scheduler::{DeviceLimits, KindLimits};

/// How many requests may be outstanding at a target that commits each write by itself. Outstanding
/// requests delay a new one; three megabytes of writes take only some milliseconds.
pub const MAX_OUTSTANDING: DeviceLimits = DeviceLimits {
    reads: KindLimits { requests: 16, bytes: 3 << 19 },
    writes: KindLimits { requests: 16, bytes: 3 << 20 },
};
/// How many requests may be outstanding at a target that commits writes in groups. The 64 writes
/// are two groups of 32: one is synced while the other gathers. A sync then costs about a third as
/// much as its group. A write may wait for two full groups, so the limit of bytes is half of that
/// in [`MAX_OUTSTANDING`].
pub const MAX_OUTSTANDING_IN_GROUPS: DeviceLimits = DeviceLimits {
    reads: KindLimits { requests: 16, bytes: 3 << 19 },
    writes: KindLimits { requests: 64, bytes: 3 << 19 },
};
/// How many method calls a target is assumed to run in parallel. While fewer requests run, a call
/// is charged `1 / CALLS_SIDE_BY_SIDE` of the time.
pub(crate) const CALLS_SIDE_BY_SIDE: usize = 16;
/// How long a request may wait in a queue. Its sender gives up after 30 s.
pub const MAX_QUEUE_WAIT: Duration = Duration::from_secs(20);
/// The most tenants without a promise that a target counts separately. Each takes about 100 KiB.
pub(crate) const MAX_METERED_TENANTS: usize = 256;
/// The most tenants that a node watches at a time. Each of their requests updates 64 buckets.
pub(crate) const MAX_WATCHED_TENANTS: usize = 16;
/// The longest time for which a tenant is watched.
pub(crate) const MAX_WATCH: Duration = Duration::from_secs(86_400);
/// The fraction of the measured bandwidth that may be promised. The bandwidth of a disk varies from
/// minute to minute.
pub(crate) const USABLE_BANDWIDTH: f64 = 0.8;
/// The most work of nacre's own requests that may be served before a tenant's request.
pub(crate) const SYSTEM_BURST_SECONDS: f64 = 0.01;
/// The fraction of a target's time that nacre's own requests may take before those of tenants.
pub(crate) const SYSTEM_RATE: f64 = 0.1;
/// The default weight of nacre's background work among tenants without a promise.
pub(crate) const BACKGROUND_WEIGHT: f64 = 0.25;
/// How many samples a measurement takes for each size and kind. Their spread gives the confidence
/// interval.
pub(crate) const PROFILE_SAMPLES: u32 = 5;
/// How long the measurement waits for a target that answers nothing.
pub(crate) const LONGEST_MEASUREMENT: Duration = Duration::from_secs(10);
/// The budget of an order program for one decision. All requests to the target wait for the
/// decision.
#[cfg(feature = "programs")]
pub(crate) const ORDER_BUDGET: Budget = Budget {
    time: Duration::from_millis(2),
    steps: 20_000,
    memory_bytes: 1024 * 1024,
    output_bytes: 0,
};
/// How long an order program is not asked after it has exceeded its budget. Each excess delays all
/// waiting requests.
#[cfg(feature = "programs")]
pub(crate) const PAUSE_AFTER_EXCESS: Duration = Duration::from_secs(1);
/// The most moves in one advice. Each moves data, or is carried out by hand.
pub(crate) const MAX_ADVISED_MOVES: usize = 8;
/// How many tenants [`advise`](crate::advise) tries to move before it chooses a move. Each try
/// solves a linear program for each target.
pub(crate) const MAX_MOVERS: usize = 16;
/// The pause before a map that could not be read is read again.
pub(crate) const READ_AGAIN: Duration = Duration::from_secs(1);
/// How late a node may send or read the next part of a message, because its timers have steps of a
/// millisecond.
pub(crate) const LINK_LAG_SECONDS: f64 = 2e-3;
/// The slowest and the fastest link. A slower one is a mistake in the unit; a faster one does not
/// exist.
pub const LINK_BYTES_PER_SECOND: std::ops::RangeInclusive<f64> = 1e3..=1e12;
