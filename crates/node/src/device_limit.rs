//! A layer that makes a target as slow as a device that serves only a given number of requests a
//! second.
//!
//! Demonstrations and tests use this layer to overload a target. Requests pass it one after
//! another, in the order in which they came, and then go on to the engine. Without a limit the
//! layer does nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use nacre_clock::Clock;
use nacre_object::{Error, Layer, Reply, Request, Result, Stack, Store};

/// The most requests a second that a limit may allow: more than any target serves.
const MAX_RATE: u64 = 10_000_000;

/// How fast a device is.
#[derive(Debug)]
pub struct DeviceLimit {
    clock: Arc<dyn Clock>,
    /// Requests a second; 0 without a limit.
    per_second: AtomicU64,
    /// When the device will have served all requests that have arrived.
    free_at: Mutex<Duration>,
}

impl DeviceLimit {
    /// No limit.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, per_second: AtomicU64::new(0), free_at: Mutex::default() }
    }

    /// Limits the target to this many requests a second from now on; 0 removes the limit.
    ///
    /// # Errors
    /// `Invalid` if the number is higher than any target can serve.
    pub fn set(&self, per_second: u64) -> Result<()> {
        if per_second > MAX_RATE {
            return Err(Error::invalid(format!("{per_second} requests a second are too many"))
                .hint(format!("set at most {MAX_RATE}; 0 removes the limit")));
        }
        self.per_second.store(per_second, Ordering::Relaxed);
        *self.free_at.lock().unwrap_or_else(PoisonError::into_inner) = Duration::ZERO;
        Ok(())
    }

    /// How long a request that arrives now waits until the simulated device has served it.
    fn turn(&self) -> Option<Duration> {
        let per_second = self.per_second.load(Ordering::Relaxed);
        if per_second == 0 {
            return None;
        }
        let now = self.clock.monotonic();
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        *free_at = now.max(*free_at) + Duration::from_secs_f64(1.0 / per_second as f64);
        Some(*free_at - now)
    }
}

/// The layer next to the engine.
#[derive(Debug)]
pub struct DeviceLimitLayer {
    next: Stack,
    limit: Arc<DeviceLimit>,
}

impl DeviceLimitLayer {
    /// The layer before `next`.
    pub fn new(next: Stack, limit: Arc<DeviceLimit>) -> Self {
        Self { next, limit }
    }
}

impl Layer for DeviceLimitLayer {
    fn next(&self) -> &Stack {
        &self.next
    }

    fn submit(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        match self.limit.turn() {
            None => self.next.submit(request),
            Some(wait) => async move {
                tokio::time::sleep(wait).await;
                self.next.submit(request).await
            }
            .boxed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use nacre_clock::ManualClock;

    use super::*;

    #[test]
    fn a_limited_device_serves_requests_one_after_the_other() {
        let limit = DeviceLimit::new(Arc::new(ManualClock::default()));
        assert_eq!(limit.turn(), None);
        limit.set(100).unwrap();
        let turns = [(); 3].map(|()| limit.turn().unwrap().as_millis());
        assert_eq!(turns, [10, 20, 30]);
        limit.set(0).unwrap();
        assert_eq!(limit.turn(), None);
        assert!(limit.set(MAX_RATE + 1).is_err());
    }
}
