//! Decides which entry passes next in one direction of a network link, and when. An entry is a
//! tenant's request to send or receive some bytes. [`Gate`](super::Gate) makes the entries.
//!
//! [`Scheduler`] orders the entries. Tenants that are within the token buckets of their promises
//! come first, by priority. The other tenants take turns, by weight.
//!
//! The *work* of an entry is the time that the link needs for its bytes. The next entry passes when
//! the link has done the work of the previous one.
//!
//! **Invariant:** in any period of length `t`, the total work of the entries that pass is at most
//! `t` plus [`MAX_LAG`] plus the work of one entry.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use nacre_object::TenantName;
use nacre_qos::scheduler::{
    DeviceLimits, KindLimits, NewRequest, Next, RequestId, Scheduler, Share, TenantId,
    TenantSettings, Ties, Work,
};
use nacre_qos::{IoKind, Link};

use crate::limits::MAX_LINK_TENANTS;

/// Timers have steps of a millisecond, so an entry may pass some time after the link became free. A
/// delay up to this bound costs no speed: the entry's work counts as begun when the link became
/// free.
const MAX_LAG: Duration = Duration::from_millis(2);
/// The scheduler needs no limits of its own, because `busy_until` limits how much passes.
const NO_LIMIT: KindLimits = KindLimits { requests: usize::MAX, bytes: u64::MAX };

/// One direction of a link, with the entries that wait for it.
#[derive(Debug)]
pub(super) struct LinkOrder {
    link: Link,
    shares: BTreeMap<TenantName, Share>,
    scheduler: Scheduler,
    tenants: HashMap<TenantName, TenantId>,
    work: HashMap<RequestId, f64>,
    /// The time at which the link will have done the work of all entries that have passed.
    busy_until: Duration,
}

impl LinkOrder {
    pub(super) fn new(link: Link, shares: BTreeMap<TenantName, Share>) -> Self {
        let limits = DeviceLimits { reads: NO_LIMIT, writes: NO_LIMIT };
        let scheduler = Scheduler::new(limits, Ties::FirstCome).expect("limits above 0");
        let (tenants, work) = (HashMap::new(), HashMap::new());
        Self { link, shares, scheduler, tenants, work, busy_until: Duration::ZERO }
    }

    /// Changes the speed and the shares. Entries that wait already keep the work that was computed
    /// for the old speed.
    pub(super) fn set(&mut self, link: Link, shares: BTreeMap<TenantName, Share>, now: Duration) {
        (self.link, self.shares) = (link, shares);
        for (name, tenant) in &self.tenants {
            // The settings were valid before they were applied.
            let _ = self.scheduler.set_tenant(*tenant, settings(&self.shares, name), now);
        }
    }

    /// Makes an entry for some messages of `bytes` bytes in total. `None` if the scheduler cannot
    /// take the entry; then the messages need not wait.
    pub(super) fn enter(
        &mut self,
        tenant: &TenantName,
        messages: usize,
        bytes: usize,
        now: Duration,
    ) -> Option<(TenantId, RequestId)> {
        let tenant = self.tenant(tenant, now)?;
        let seconds = self.link.messages_seconds(messages as u64, bytes as u64);
        let entry = NewRequest {
            tenant,
            kind: IoKind::Read,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            work: Work::seconds(seconds).ok()?,
            deadline: None,
        };
        let request = self.scheduler.enqueue(entry, now).ok()?;
        self.work.insert(request, seconds);
        Some((tenant, request))
    }

    /// Lets the next entry pass, if the link is free.
    pub(super) fn next(&mut self, now: Duration) -> Option<RequestId> {
        if self.busy_until > now {
            return None;
        }
        let Next::Send(sent) = self.scheduler.next(now) else { return None };
        self.scheduler.complete(sent.request, None, now);
        let seconds = self.work.remove(&sent.request).unwrap_or_default();
        let begins = self.busy_until.max(now.saturating_sub(MAX_LAG));
        self.busy_until = begins.saturating_add(Duration::from_secs_f64(seconds));
        Some(sent.request)
    }

    /// The time at which the next entry may pass; `None` if no entry waits.
    pub(super) fn next_at(&self) -> Option<Duration> {
        (self.scheduler.queued() > 0).then_some(self.busy_until)
    }

    /// Removes an entry that waits.
    pub(super) fn leave(&mut self, tenant: TenantId, request: RequestId, now: Duration) {
        self.scheduler.cancel(tenant, request, now);
        self.work.remove(&request);
    }

    /// The number of a tenant in the scheduler. Once there are [`MAX_LINK_TENANTS`] tenants,
    /// further tenants without a promise or weight share one number.
    fn tenant(&mut self, name: &TenantName, now: Duration) -> Option<TenantId> {
        if let Some(tenant) = self.tenants.get(name) {
            return Some(*tenant);
        }
        let others = TenantName::standard();
        let is_known = self.shares.contains_key(name);
        if self.tenants.len() >= MAX_LINK_TENANTS && !is_known && *name != others {
            return self.tenant(&others, now);
        }
        let tenant = self.scheduler.add_tenant(settings(&self.shares, name), now).ok()?;
        self.tenants.insert(name.clone(), tenant);
        Some(tenant)
    }
}

/// The settings of a tenant in the scheduler. The scheduler's queue has no bound, because the
/// limits on sessions already bound how much waits.
fn settings(shares: &BTreeMap<TenantName, Share>, name: &TenantName) -> TenantSettings {
    let mut settings = TenantSettings::weighted(1.0);
    if let Some(share) = shares.get(name) {
        settings.share = share.clone();
    }
    settings.queue_requests = usize::MAX;
    settings.queue_bytes = u64::MAX;
    settings
}

#[cfg(test)]
mod tests {
    use nacre_qos::RateBurst;

    use super::*;

    const PART: usize = 10_000;

    fn name(text: &str) -> TenantName {
        TenantName::new(text).unwrap()
    }

    fn turns(shares: &[(&str, Share)]) -> LinkOrder {
        let shares = shares.iter().map(|(tenant, share)| (name(tenant), share.clone()));
        LinkOrder::new(Link::new(1e6).unwrap(), shares.collect())
    }

    fn enter(turns: &mut LinkOrder, tenant: &str, bytes: usize, now: Duration) -> RequestId {
        turns.enter(&name(tenant), 1, bytes, now).unwrap().1
    }

    /// Lets all waiting entries pass, from the time of 1 s on. Returns each entry with the time at
    /// which it passed.
    fn passed(turns: &mut LinkOrder) -> Vec<(RequestId, Duration)> {
        let mut passed = vec![];
        while let Some(at) = turns.next_at() {
            let at = at.max(Duration::from_secs(1));
            passed.extend(turns.next(at).map(|request| (request, at)));
        }
        passed
    }

    #[test]
    fn bytes_pass_at_the_speed_of_the_link() {
        let mut turns = turns(&[]);
        let start = Duration::from_secs(1);
        for _ in 0..101 {
            enter(&mut turns, "bulk", PART, start);
        }
        let passed = passed(&mut turns);
        let took = passed.last().unwrap().1.saturating_sub(start).as_secs_f64();
        // The last entry passes after 100 others of 11,059 bytes each, with all headers, at 1 MB/s.
        assert!((took - 1.106).abs() < 0.01, "{took}");
    }

    #[test]
    fn a_tenant_within_its_bucket_passes_before_a_bulk_transfer() {
        let buckets = vec![RateBurst { rate: 0.1, burst_seconds: 0.01 }];
        let mut turns = turns(&[("gold", Share::Promised { priority: 0, buckets })]);
        let start = Duration::from_secs(1);
        let first = enter(&mut turns, "bulk", PART, start);
        for _ in 0..10 {
            enter(&mut turns, "bulk", PART, start);
        }
        assert_eq!(turns.next(start), Some(first));
        let gold = enter(&mut turns, "gold", 100, start);
        assert_eq!(passed(&mut turns)[0].0, gold);
    }

    #[test]
    fn a_tenant_beyond_its_bucket_shares_with_the_others() {
        let buckets = vec![RateBurst { rate: 0.01, burst_seconds: 0.012 }];
        let mut turns = turns(&[("gold", Share::Promised { priority: 0, buckets })]);
        let start = Duration::from_secs(1);
        let gold: Vec<_> = (0..10).map(|_| enter(&mut turns, "gold", PART, start)).collect();
        for _ in 0..10 {
            enter(&mut turns, "bulk", PART, start);
        }
        let order: Vec<_> = passed(&mut turns).iter().map(|(one, _)| gold.contains(one)).collect();
        assert!(order[0], "the first is within the bucket");
        let early = order[..10].iter().filter(|is_gold| **is_gold).count();
        assert!((4..=7).contains(&early), "{order:?}");
    }

    #[test]
    fn tenants_without_a_promise_share_by_weight() {
        let mut turns = turns(&[("heavy", Share::Weighted { weight: 3.0 })]);
        let start = Duration::from_secs(1);
        let heavy: Vec<_> = (0..40).map(|_| enter(&mut turns, "heavy", PART, start)).collect();
        for _ in 0..40 {
            enter(&mut turns, "light", PART, start);
        }
        let passed = passed(&mut turns);
        let early = passed[..20].iter().filter(|(one, _)| heavy.contains(one)).count();
        assert!((14..=16).contains(&early), "{early}");
    }

    #[test]
    fn a_cancelled_entry_never_passes() {
        let mut turns = turns(&[]);
        let start = Duration::from_secs(1);
        let (tenant, request) = turns.enter(&name("bulk"), 1, PART, start).unwrap();
        turns.leave(tenant, request, start);
        assert_eq!((turns.next_at(), turns.next(start)), (None, None));
    }

    #[test]
    fn tenants_beyond_the_bound_count_as_one() {
        let mut turns = turns(&[]);
        for number in 0..MAX_LINK_TENANTS * 2 {
            enter(&mut turns, &format!("t{number}"), 1, Duration::ZERO);
        }
        assert_eq!(turns.tenants.len(), MAX_LINK_TENANTS + 1);
    }
}
