//! `RouterLease`: how long the router among the gateways to Ceph may answer reads from its cache.
//!
//! A router that is silent is shut out of the Ceph cluster and replaced. OSDs then refuse its
//! requests, but nobody can take the bytes from its memory. So it answers from the cache only for a
//! time after it has renewed its lease, and this time is shorter than the time after which others
//! replace it. A gateway that is not the router never has the lease.
//!
//! The times are those of two machines. The protocol assumes that their clocks do not differ in speed
//! by more than a fifth, and go on while a process is paused.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nacre_clock::Clock;

/// The lease.
pub(crate) struct RouterLease {
    clock: Arc<dyn Clock>,
    /// When it ends, in microseconds of the monotonic clock.
    ends_micros: AtomicU64,
}

impl fmt::Debug for RouterLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouterLease")
            .field("ends_micros", &self.ends_micros)
            .finish_non_exhaustive()
    }
}

impl RouterLease {
    /// A lease that has never begun.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, ends_micros: AtomicU64::new(0) }
    }

    /// The lease lasts until this time.
    pub fn lasts_until(&self, end: Duration) {
        let end = u64::try_from(end.as_micros()).unwrap_or(u64::MAX);
        self.ends_micros.fetch_max(end, Ordering::SeqCst);
    }

    /// Whether the lease lasts now. Ask this after the bytes were taken from the cache: then they were
    /// the present bytes at the time of the question.
    pub fn lasts(&self) -> bool {
        self.clock.monotonic().as_micros() < u128::from(self.ends_micros.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use nacre_clock::ManualClock;

    use super::*;

    #[test]
    fn a_lease_ends_by_itself_and_is_never_cut_short() {
        let clock = Arc::new(ManualClock::default());
        let lease = RouterLease::new(Arc::clone(&clock) as Arc<dyn Clock>);
        assert!(!lease.lasts(), "a gateway that was never the router");
        let start = clock.monotonic();
        lease.lasts_until(start + Duration::from_secs(4));
        lease.lasts_until(start + Duration::from_secs(3));
        assert!(lease.lasts());
        clock.advance(Duration::from_secs(4));
        assert!(!lease.lasts());
    }
}
