//! Clocks: a real one, and one that tests move by hand.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// A source of time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Microseconds since 1970, UTC. May jump; never decide an order by it.
    fn now_micros(&self) -> u64;

    /// Time since some fixed moment; never goes back. For durations.
    fn monotonic(&self) -> Duration;

    /// The CPU time that the calling thread has used since some fixed instant. `None` if the clock
    /// cannot measure CPU time.
    fn thread_time(&self) -> Option<Duration> {
        None
    }
}

/// The machine's clock.
#[derive(Debug, Clone)]
pub struct SystemClock {
    started: Instant,
}

impl Default for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the one place time comes from")]
    fn default() -> Self {
        Self { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the one place time comes from")]
    fn now_micros(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }

    fn thread_time(&self) -> Option<Duration> {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::try_from(time).ok()
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug, Default)]
pub struct ManualClock {
    micros: AtomicU64,
}

impl ManualClock {
    /// A clock that shows `micros`.
    pub fn at(micros: u64) -> Self {
        Self { micros: AtomicU64::new(micros) }
    }

    /// Moves it on.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_micros(&self) -> u64 {
        self.micros.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.now_micros())
    }
}
