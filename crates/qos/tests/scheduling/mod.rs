//! Helpers of the scheduler's suites: devices, tenants and requests.

#![allow(dead_code, reason = "each suite uses a part")]

use std::time::Duration;

use nacre_qos::IoKind::Read;
use nacre_qos::RateBurst;
use nacre_qos::scheduler::{
    DeviceLimits, KindLimits, NewRequest, Next, RequestId, Scheduler, TenantId, TenantSettings,
    Ties, Work,
};

pub fn bucket(rate: f64, burst_seconds: f64) -> RateBurst {
    RateBurst { rate, burst_seconds }
}

pub const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// A device that has this many requests of each kind at a time.
pub fn device(requests: usize) -> Scheduler {
    let limits = KindLimits { requests, bytes: 1 << 30 };
    Scheduler::new(DeviceLimits { reads: limits, writes: limits }, Ties::FirstCome).unwrap()
}

pub fn promised(scheduler: &mut Scheduler, priority: u32, buckets: &[(f64, f64)]) -> TenantId {
    let buckets = buckets.iter().map(|(rate, burst)| bucket(*rate, *burst)).collect();
    scheduler.add_tenant(TenantSettings::promised(priority, buckets), ms(0)).unwrap()
}

pub fn weighted(scheduler: &mut Scheduler, weight: f64) -> TenantId {
    scheduler.add_tenant(TenantSettings::weighted(weight), ms(0)).unwrap()
}

pub fn read_of(tenant: TenantId, work: f64) -> NewRequest {
    let work = Work::seconds(work).unwrap();
    NewRequest { tenant, kind: Read, bytes: 4096, work, deadline: None }
}

pub fn enqueue(scheduler: &mut Scheduler, tenant: TenantId, work: f64, now: Duration) -> RequestId {
    scheduler.enqueue(read_of(tenant, work), now).unwrap()
}

/// Sends requests until none waits. Returns the tenant of each, and whether it was within its
/// limits.
pub fn drain(scheduler: &mut Scheduler, now: Duration) -> Vec<(TenantId, bool)> {
    let mut sent = vec![];
    while let Next::Send(next) = scheduler.next(now) {
        sent.push((next.tenant, next.is_within));
        assert!(scheduler.complete(next.request, None, now));
    }
    sent
}

pub fn order(scheduler: &mut Scheduler, now: Duration) -> Vec<TenantId> {
    drain(scheduler, now).into_iter().map(|(tenant, _)| tenant).collect()
}
