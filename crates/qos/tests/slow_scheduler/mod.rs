//! A slow scheduler that is obviously right, to compare the real one with. It recomputes everything
//! for each decision.
//!
//! It keeps a list of the charges to each bucket with their times, and no sorted or derived state.
//! Each decision computes from these lists which tenants are within their limits.

use std::time::Duration;

use nacre_qos::IoKind;
use nacre_qos::scheduler::{DeviceLimits, RequestId, Share, TenantSettings, Ties};

/// The largest rounding error in the tokens of a bucket, in seconds of work. A bucket with less
/// than twice this amount counts as empty.
const ROUNDING: f64 = 1e-9;

#[derive(Debug, Clone, Copy)]
pub struct Request {
    pub id: RequestId,
    pub kind: IoKind,
    pub bytes: u32,
    pub work: Option<f64>,
    /// When a shaper lets it go.
    pub within_at: Duration,
}

#[derive(Debug)]
pub struct Tenant {
    pub settings: TenantSettings,
    pub queue: Vec<Request>,
    /// For each bucket, the amounts that were poured in and their times.
    poured: Vec<Vec<(Duration, f64)>>,
    turn: u64,
    pass: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Within(u32),
    Outside,
    Weighted,
}

#[derive(Debug)]
struct AtDevice {
    tenant: usize,
    request: Request,
    priority: u32,
    /// Its number among all that were sent.
    number: usize,
}

#[derive(Debug)]
pub struct SlowScheduler {
    pub tenants: Vec<Tenant>,
    limits: DeviceLimits,
    ties: Ties,
    at_device: Vec<AtDevice>,
    /// The bytes of each request that was sent.
    sent: Vec<u64>,
    turns: u64,
    virtual_pass: f64,
    /// Of tenants outside their limits, and of weighted ones.
    group_pass: [f64; 2],
    was_empty: [bool; 2],
}

impl SlowScheduler {
    pub fn new(limits: DeviceLimits, ties: Ties) -> Self {
        Self {
            tenants: vec![],
            limits,
            ties,
            at_device: vec![],
            sent: vec![],
            turns: 0,
            virtual_pass: 0.0,
            group_pass: [0.0; 2],
            was_empty: [true; 2],
        }
    }

    pub fn add_tenant(&mut self, settings: TenantSettings) {
        let poured = buckets(&settings).iter().map(|_| vec![]).collect();
        self.tenants.push(Tenant { settings, queue: vec![], poured, turn: 0, pass: 0.0 });
    }

    pub fn enqueue(&mut self, tenant: usize, request: Request, now: Duration) -> bool {
        self.look(now);
        let own = &mut self.tenants[tenant];
        let bytes: u64 = own.queue.iter().map(|request| u64::from(request.bytes)).sum();
        if own.queue.len() >= own.settings.queue_requests || bytes >= own.settings.queue_bytes {
            return false;
        }
        if own.queue.is_empty() {
            own.pass = own.pass.max(self.virtual_pass);
            self.turns += 1;
            own.turn = self.turns;
        }
        own.pour(request.work.unwrap_or(0.0), now);
        let within_at = own.within_at(request.work.unwrap_or(0.0), now);
        own.queue.push(Request { within_at, ..request });
        self.look(now);
        true
    }

    pub fn next(&mut self, now: Duration) -> Option<(usize, RequestId, bool)> {
        self.look(now);
        let (tenant, standing) = self.choose(now)?;
        let priority = match standing {
            Standing::Within(priority) => priority,
            _ => u32::MAX,
        };
        let is_held_back =
            self.at_device.iter().any(|other| other.priority < priority && self.is_overdue(other));
        if is_held_back || !self.has_room(self.tenants[tenant].queue[0].kind) {
            return None;
        }
        self.send(tenant, standing, priority, now);
        let sent = self.at_device.last()?;
        Some((tenant, sent.request.id, priority != u32::MAX))
    }

    fn send(&mut self, tenant: usize, standing: Standing, priority: u32, now: Duration) {
        match standing {
            Standing::Within(_) => {}
            Standing::Outside => self.group_pass[0] += 1.0 / self.group_weight(0, now),
            Standing::Weighted => self.group_pass[1] += 1.0 / self.group_weight(1, now),
        }
        let own = &mut self.tenants[tenant];
        let work = own.queue[0].work.unwrap_or(0.0);
        if standing == Standing::Outside {
            for at in 0..own.poured.len() {
                let tokens = own.tokens(at, now);
                // A request takes only existing tokens, so the missing ones are poured back.
                let missing = work - work.min(tokens.max(0.0));
                own.poured[at].push((now, -missing));
            }
        }
        let request = own.queue.remove(0);
        if let Share::Weighted { weight } = own.settings.share {
            self.virtual_pass = self.virtual_pass.max(own.pass);
            own.pass += work.max(1e-6) / weight;
        }
        self.turns += 1;
        own.turn = self.turns;
        let number = self.sent.len();
        self.sent.push(u64::from(request.bytes));
        self.at_device.push(AtDevice { tenant, request, priority, number });
        self.look(now);
    }

    pub fn complete(&mut self, id: RequestId, work: Option<f64>, now: Duration) {
        self.look(now);
        let at = self.at_device.iter().position(|other| other.request.id == id).unwrap();
        let done = self.at_device.remove(at);
        let Some(work) = work else { return };
        let more = work - done.request.work.unwrap_or(0.0);
        if more == 0.0 {
            return;
        }
        let own = &mut self.tenants[done.tenant];
        for at in 0..own.poured.len() {
            let tokens = own.tokens(at, now);
            let poured = match done.priority {
                u32::MAX if more > 0.0 => more.min(tokens.max(0.0)),
                _ => more,
            };
            own.poured[at].push((now, poured));
        }
        if let Share::Weighted { weight } = own.settings.share {
            own.pass = (own.pass + more / weight).max(0.0);
        }
        self.look(now);
    }

    pub fn cancel(&mut self, tenant: usize, id: RequestId, now: Duration) {
        self.look(now);
        let own = &mut self.tenants[tenant];
        let at = own.queue.iter().position(|request| request.id == id).unwrap();
        let request = own.queue.remove(at);
        own.pour(-request.work.unwrap_or(0.0), now);
        self.look(now);
    }

    pub fn tokens(&self, tenant: usize, now: Duration) -> Vec<f64> {
        let own = &self.tenants[tenant];
        (0..own.poured.len()).map(|at| own.tokens(at, now)).collect()
    }

    pub fn outstanding(&self) -> Vec<RequestId> {
        self.at_device.iter().map(|other| other.request.id).collect()
    }

    fn choose(&self, now: Duration) -> Option<(usize, Standing)> {
        let candidates: Vec<_> = (0..self.tenants.len())
            .filter(|at| !self.tenants[*at].queue.is_empty())
            .map(|at| (at, self.tenants[at].standing(now)))
            .collect();
        let turn = |at: usize| self.tenants[at].turn;
        let tie = |at: usize| match self.ties {
            Ties::FirstCome => self.tenants[at].queue[0].within_at,
            Ties::Turns => Duration::from_nanos(turn(at)),
        };
        let within = candidates.iter().filter_map(|(at, standing)| match standing {
            Standing::Within(priority) => {
                Some((*priority, tie(*at), self.tenants[*at].queue[0].id, *at))
            }
            _ => None,
        });
        if let Some((priority, _, _, at)) = within.min() {
            return Some((at, Standing::Within(priority)));
        }
        let has_room = |at: &usize| self.has_room(self.tenants[*at].queue[0].kind);
        let of = |wanted: Standing| {
            let own = candidates.iter().filter(move |(_, standing)| *standing == wanted);
            own.map(|(at, _)| *at).filter(has_room)
        };
        let outside = of(Standing::Outside).min_by_key(|at| turn(*at));
        let weighted = of(Standing::Weighted).min_by(|one, other| {
            let pass = |at: usize| self.tenants[at].pass;
            pass(*one).total_cmp(&pass(*other)).then(turn(*one).cmp(&turn(*other)))
        });
        match (outside, weighted) {
            (Some(at), None) => Some((at, Standing::Outside)),
            (None, Some(at)) => Some((at, Standing::Weighted)),
            (Some(_), Some(at)) if self.group_pass[1] < self.group_pass[0] => {
                Some((at, Standing::Weighted))
            }
            (Some(at), Some(_)) => Some((at, Standing::Outside)),
            (None, None) => None,
        }
    }

    fn has_room(&self, kind: IoKind) -> bool {
        let own = || self.at_device.iter().filter(|other| other.request.kind == kind);
        let bytes: u64 = own().map(|other| u64::from(other.request.bytes)).sum();
        let limits = self.limits.of(kind);
        own().count() < limits.requests && bytes < limits.bytes
    }

    fn is_overdue(&self, request: &AtDevice) -> bool {
        let since = &self.sent[request.number + 1..];
        let DeviceLimits { reads, writes } = self.limits;
        since.len() >= reads.requests + writes.requests
            || since.iter().sum::<u64>() >= reads.bytes + writes.bytes
    }

    fn group_weight(&self, group: usize, now: Duration) -> f64 {
        let weight = |tenant: &Tenant| match (tenant.queue.is_empty(), tenant.standing(now)) {
            (false, Standing::Outside) if group == 0 => 1.0,
            (false, Standing::Weighted) if group == 1 => match tenant.settings.share {
                Share::Weighted { weight } => weight,
                Share::Promised { .. } => 0.0,
            },
            _ => 0.0,
        };
        self.tenants.iter().map(weight).sum()
    }

    /// An idle group restarts with the share of the other group.
    fn look(&mut self, now: Duration) {
        let is_empty = [0, 1].map(|group| self.group_weight(group, now) == 0.0);
        let passes = self.group_pass;
        for (group, pass) in self.group_pass.iter_mut().enumerate() {
            if self.was_empty[group] && !is_empty[group] {
                *pass = pass.max(passes[1 - group]);
            }
        }
        self.was_empty = is_empty;
    }
}

impl Tenant {
    fn pour(&mut self, work: f64, now: Duration) {
        for poured in &mut self.poured {
            poured.push((now, work));
        }
    }

    /// The time at which all buckets cover the last charged request. The level of each bucket has
    /// then fallen to its burst, or to the work of the request if that is more.
    fn within_at(&self, work: f64, now: Duration) -> Duration {
        let waits = buckets(&self.settings).iter().enumerate().map(|(at, bucket)| {
            let too_much = self.level(at, now) - bucket.burst_seconds.max(work);
            let nanos = (too_much / bucket.rate * 1e9).ceil();
            match too_much > 0.0 {
                false => now,
                true if nanos < u64::MAX as f64 => now + Duration::from_nanos(nanos as u64),
                true => Duration::MAX,
            }
        });
        waits.max().unwrap_or(now).max(now)
    }

    /// The burst, minus the work that came and was not allowed since, plus the work that waits.
    fn tokens(&self, at: usize, now: Duration) -> f64 {
        let queued: f64 = self.queue.iter().filter_map(|request| request.work).sum();
        buckets(&self.settings)[at].burst_seconds - self.level(at, now) + queued
    }

    fn level(&self, at: usize, now: Duration) -> f64 {
        let bucket = buckets(&self.settings)[at];
        let (mut level, mut last) = (0.0_f64, Duration::ZERO);
        for (when, work) in &self.poured[at] {
            level = (level - bucket.rate * (*when - last).as_secs_f64()).max(0.0);
            level = (level + work).max(0.0);
            last = *when;
        }
        (level - bucket.rate * (now - last).as_secs_f64()).max(0.0)
    }

    fn standing(&self, now: Duration) -> Standing {
        let Share::Promised { priority, buckets } = &self.settings.share else {
            return Standing::Weighted;
        };
        let Some(head) = self.queue.first() else { return Standing::Outside };
        let is_within = buckets.iter().enumerate().all(|(at, bucket)| {
            let needed = match head.work {
                Some(work) => work.min(bucket.burst_seconds) - ROUNDING,
                None => 2.0 * ROUNDING,
            };
            self.tokens(at, now) >= needed
        });
        if is_within { Standing::Within(*priority) } else { Standing::Outside }
    }
}

fn buckets(settings: &TenantSettings) -> &[nacre_qos::RateBurst] {
    match &settings.share {
        Share::Promised { buckets, .. } => buckets,
        Share::Weighted { .. } => &[],
    }
}
