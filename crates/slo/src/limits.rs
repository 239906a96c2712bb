//! Every bound of this crate with its reason.

use std::time::Duration;

#[cfg(feature = "programs")]
use nacre_program::Budget;
use nacre_qos::scheduler::{DeviceLimits, KindLimits};

/// How many requests may be outstanding at a target that commits each write by itself. Such a
/// target writes three megabytes in some milliseconds.
pub const MAX_OUTSTANDING: DeviceLimits = DeviceLimits {
    reads: KindLimits { requests: 16, bytes: 3 << 19 },
    writes: KindLimits { requests: 16, bytes: 3 << 20 },
};
/// How many requests may be outstanding at a target that commits writes in groups. 64 writes are
/// two groups of 32: one is synced while the other gathers. A sync then costs about a third as much
/// as its group. A write may wait for twice these bytes, so the bytes are half of those above.
pub const MAX_OUTSTANDING_IN_GROUPS: DeviceLimits = DeviceLimits {
    reads: KindLimits { requests: 16, bytes: 3 << 19 },
    writes: KindLimits { requests: 64, bytes: 3 << 19 },
};
/// How many calls of methods a target is assumed to run in parallel. While fewer requests run, a
/// call is charged `1 / CALLS_SIDE_BY_SIDE` of the time.
pub(crate) const CALLS_SIDE_BY_SIDE: usize = 16;
/// How long a request may wait in a queue. Its sender gives up after 30 s.
pub const MAX_QUEUE_WAIT: Duration = Duration::from_secs(20);
/// The most tenants without a promise that a target counts separately. Each takes about 100 KiB.
pub(crate) const MAX_METERED_TENANTS: usize = 256;
/// The most tenants that a node watches at a time. Each of their requests updates 64 buckets.
pub(crate) const MAX_WATCHED_TENANTS: usize = 16;
/// The longest time for which a tenant is watched.
pub(crate) const MAX_WATCH: Duration = Duration::from_secs(86_400);
/// The part of the measured bandwidth that may be promised. The bandwidth of a disk varies from
/// minute to minute.
pub(crate) const USABLE_BANDWIDTH: f64 = 0.8;
/// The most work of nacre's own requests that may come before a tenant's request.
pub(crate) const SYSTEM_BURST_SECONDS: f64 = 0.01;
/// The part of a target's time that nacre's own requests may take before the requests of tenants.
pub(crate) const SYSTEM_RATE: f64 = 0.1;
/// The weight of nacre's own background work among tenants without a promise, unless it is set.
pub(crate) const BACKGROUND_WEIGHT: f64 = 0.25;
/// How many samples one measurement of a profile has. They give the confidence interval.
pub(crate) const PROFILE_SAMPLES: u32 = 5;
/// The longest measurement of a target that answers nothing.
pub(crate) const LONGEST_MEASUREMENT: Duration = Duration::from_secs(10);
/// The budget of one decision of an order program. All requests to the target wait for the
/// decision.
#[cfg(feature = "programs")]
pub(crate) const ORDER_BUDGET: Budget = Budget {
    time: Duration::from_millis(2),
    steps: 20_000,
    memory_bytes: 1024 * 1024,
    output_bytes: 0,
};
/// How long a program is not asked after it exceeded its budget. Each such attempt delays all
/// waiting requests.
#[cfg(feature = "programs")]
pub(crate) const PAUSE_AFTER_EXCESS: Duration = Duration::from_secs(1);
/// The most moves that are advised at a time. Nobody carries out more by hand.
pub(crate) const MAX_ADVISED_MOVES: usize = 8;
/// The most tenants whose move is tried in one step of an advice. Each try solves a linear program
/// for each target.
pub(crate) const MAX_MOVERS: usize = 16;
/// The pause before a map that could not be read is read again.
pub(crate) const READ_AGAIN: Duration = Duration::from_secs(1);
