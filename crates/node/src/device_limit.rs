//! A layer that makes targets as slow as devices that serve only a given number of requests a
//! second.
//!
//! Demonstrations and tests use this layer to overload a target. Each target has a simulated device
//! of its own. Requests pass the device of their target one after another, in the order in which
//! they came, and then go on to the engine. Without a limit the layer does nothing.
//!
//! In a gateway to Ceph the targets are OSDs, and a request passes the device of its object's primary
//! OSD. The layer does not see what the OSDs send to one another, so replicas cost nothing. Each
//! gateway simulates devices of its own, so a limit holds only if all IO passes one gateway.
//!
//! Requests on nacre's own maps are not delayed. Otherwise an overloaded target that keeps the map of
//! rules would delay the rules that relieve it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use nacre_clock::Clock;
use nacre_object::{
    Error, Layer, ObjectId, PoolName, Reply, Request, Result, Stack, Store, TargetName,
};
use nacre_slo::{Located, TargetOf};

/// The most requests a second that a limit may allow: more than any target serves.
const MAX_RATE: u64 = 10_000_000;

/// How fast the devices of targets are.
pub struct DeviceLimits {
    clock: Arc<dyn Clock>,
    targets: Box<dyn TargetOf>,
    system: PoolName,
    /// Whether `devices` is not empty.
    is_limited: AtomicBool,
    /// The targets with a limit.
    devices: Mutex<BTreeMap<TargetName, Device>>,
}

#[derive(Debug)]
struct Device {
    request_time: Duration,
    /// When the device will have served all requests that have arrived.
    free_at: Duration,
}

impl fmt::Debug for DeviceLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceLimits").field("devices", &self.devices).finish_non_exhaustive()
    }
}

impl DeviceLimits {
    /// No limits.
    pub fn new(targets: impl TargetOf + 'static, clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            targets: Box::new(targets),
            system: PoolName::system(),
            is_limited: AtomicBool::new(false),
            devices: Mutex::default(),
        }
    }

    /// The target of a process that keeps the objects of one target.
    pub fn own_target(&self) -> TargetName {
        self.targets.all()
    }

    /// Limits a target to this many requests a second from now on; 0 removes the limit.
    ///
    /// # Errors
    /// `Invalid` if the number is higher than any target can serve.
    pub fn set(&self, target: TargetName, per_second: u64) -> Result<()> {
        if per_second > MAX_RATE {
            return Err(Error::invalid(format!("{per_second} requests a second are too many"))
                .hint(format!("set at most {MAX_RATE}; 0 removes the limit")));
        }
        let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        match per_second {
            0 => devices.remove(&target),
            _ => {
                let request_time = Duration::from_secs_f64(1.0 / per_second as f64);
                devices.insert(target, Device { request_time, free_at: Duration::ZERO })
            }
        };
        self.is_limited.store(!devices.is_empty(), Ordering::Relaxed);
        Ok(())
    }

    /// Whether a request on this object may have to wait.
    fn concerns(&self, object: &ObjectId) -> bool {
        self.is_limited.load(Ordering::Relaxed) && object.pool != self.system
    }

    /// How long a request that arrives now waits until the simulated device has served it.
    fn turn(&self, target: &TargetName) -> Option<Duration> {
        let now = self.clock.monotonic();
        let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        let device = devices.get_mut(target)?;
        device.free_at = now.max(device.free_at) + device.request_time;
        Some(device.free_at - now)
    }

    /// Returns once the device of the object's target has served a request.
    ///
    /// # Errors
    /// `Unavailable` if the target is not known.
    async fn serve(&self, object: &ObjectId) -> Result<()> {
        let target = match self.targets.target_of(object) {
            Located::At(target) => target,
            Located::Ask(asked) => asked.await?,
        };
        if let Some(wait) = self.turn(&target) {
            tokio::time::sleep(wait).await;
        }
        Ok(())
    }
}

/// The layer next to the engine.
#[derive(Debug)]
pub struct DeviceLimitLayer {
    next: Stack,
    limits: Arc<DeviceLimits>,
}

impl DeviceLimitLayer {
    /// The layer before `next`.
    pub fn new(next: Stack, limits: Arc<DeviceLimits>) -> Self {
        Self { next, limits }
    }
}

impl Layer for DeviceLimitLayer {
    fn next(&self) -> &Stack {
        &self.next
    }

    fn submit(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        if !self.limits.concerns(&request.header.object) {
            return self.next.submit(request);
        }
        async move {
            self.limits.serve(&request.header.object).await?;
            self.next.submit(request).await
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use nacre_clock::ManualClock;
    use nacre_slo::OneTarget;

    use super::*;

    fn target(name: &str) -> TargetName {
        TargetName::new(name).unwrap()
    }

    fn limits() -> DeviceLimits {
        DeviceLimits::new(OneTarget(target("osd.1")), Arc::new(ManualClock::default()))
    }

    #[test]
    fn a_limited_device_serves_requests_one_after_the_other() {
        let (limits, osd) = (limits(), target("osd.1"));
        assert_eq!(limits.turn(&osd), None);
        limits.set(osd.clone(), 100).unwrap();
        let turns = [(); 3].map(|()| limits.turn(&osd).unwrap().as_millis());
        assert_eq!(turns, [10, 20, 30]);
        limits.set(osd.clone(), 0).unwrap();
        assert_eq!(limits.turn(&osd), None);
        assert!(limits.set(osd, MAX_RATE + 1).is_err());
    }

    #[test]
    fn a_busy_device_delays_no_request_to_another_target() {
        let (limits, busy, idle) = (limits(), target("osd.1"), target("osd.2"));
        limits.set(busy.clone(), 100).unwrap();
        limits.set(idle.clone(), 100).unwrap();
        let turns = [&busy, &busy, &idle].map(|osd| limits.turn(osd).unwrap().as_millis());
        assert_eq!(turns, [10, 20, 10]);
        assert_eq!(limits.turn(&target("osd.3")), None);
    }

    #[test]
    fn a_limit_delays_no_request_on_a_map_of_nacre() {
        let limits = limits();
        let concerns = |object: &str| limits.concerns(&object.parse().unwrap());
        assert!(!concerns("data/a"));
        limits.set(target("osd.1"), 100).unwrap();
        assert!(concerns("data/a") && concerns("nacre.routed/spread/data/a"));
        assert!(!concerns("nacre.system/map/routes"));
    }
}
