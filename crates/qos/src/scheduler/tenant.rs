//! The queue and the token buckets of one tenant.
//!
//! Each token bucket is kept as a leaky bucket of the requests that *arrive*, not of those that are
//! sent. Its level grows by the work of each request that arrives, and falls at the rate of the
//! bucket. The tokens are the burst, minus the level, plus the work that waits. So no tokens are
//! lost while a request waits for the device, and a tenant that conforms to its buckets stays
//! within its limits.

use std::collections::VecDeque;
use std::time::Duration;

use nacre_object::{Error, Result};

use super::{Share, TenantSettings, Time};
use crate::limits::{DRAIN_WINDOW, LEAST_BACKLOG, MAX_RETRY_WAIT, MIN_RETRY_WAIT};
use crate::{IoKind, RateBurst};

/// Differences of work up to a nanosecond come from rounding.
const ROUNDING_SECONDS: f64 = 1e-9;
/// A bucket with this many tokens counts as not empty for a request of unknown work.
const NOT_EMPTY_SECONDS: f64 = 2e-9;

/// A tenant of a scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId {
    pub(super) slot: usize,
    /// Distinguishes it from former tenants of the same slot.
    pub(super) added: u64,
}

/// A request of a scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(super) u64);

impl RequestId {
    /// The request's number. Later requests have greater numbers.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// How much work a request is, if it is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work(Option<f64>);

impl Work {
    /// The work is known only when the request is done.
    pub const UNKNOWN: Self = Self(None);

    /// Work of this many seconds, computed from a profile.
    ///
    /// # Errors
    /// `Invalid` if the work is not a finite number from 0.
    pub fn seconds(seconds: f64) -> Result<Self> {
        match seconds.is_finite() && seconds >= 0.0 {
            true => Ok(Self(Some(seconds))),
            false => Err(Error::invalid(format!(
                "the work of a request is {seconds} s; it must be a finite number from 0"
            ))),
        }
    }

    /// The work, if it is known.
    pub(super) fn known(self) -> Option<f64> {
        self.0
    }

    /// The work that is charged when the request comes.
    pub(super) fn known_seconds(self) -> f64 {
        self.0.unwrap_or(0.0)
    }
}

/// A request that arrives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NewRequest {
    /// The tenant that sent it.
    pub tenant: TenantId,
    /// Whether it reads or writes.
    pub kind: IoKind,
    /// Bytes that it moves.
    pub bytes: u32,
    /// How much work it is.
    pub work: Work,
    /// After this time the sender does not want a reply.
    pub deadline: Option<Time>,
}

/// The queue and the tokens of a tenant at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct TenantState {
    /// Requests that wait.
    pub queued_requests: usize,
    /// The known work of these requests.
    pub queued_seconds: f64,
    /// The tokens of each bucket, in seconds of work.
    pub tokens_seconds: Vec<f64>,
}

/// A request that waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queued {
    pub(super) id: RequestId,
    pub(super) kind: IoKind,
    pub(super) bytes: u32,
    pub(super) work: Work,
    pub(super) deadline: Option<Time>,
    pub(super) came_at: Time,
    /// The time at which all token buckets of the tenant cover the request.
    pub(super) within_at: Time,
}

#[derive(Debug)]
struct Bucket {
    limit: RateBurst,
    /// The work that has arrived, minus the work that the rate has allowed since.
    level_seconds: f64,
}

/// A tenant's queue and buckets.
#[derive(Debug)]
pub(super) struct Tenant {
    pub(super) settings: TenantSettings,
    buckets: Vec<Bucket>,
    /// The time for which `level_seconds` of the buckets is correct.
    leaked_at: Time,
    pub(super) queue: VecDeque<Queued>,
    queued_seconds: f64,
    queued_bytes: u64,
    /// The work that was sent. It decays exponentially over [`DRAIN_WINDOW`].
    drained_seconds: f64,
    /// The time during which requests waited. It decays in the same way.
    backlogged_seconds: f64,
    drained_at: Time,
}

impl Tenant {
    pub(super) fn new(settings: TenantSettings, now: Time) -> Self {
        let mut tenant = Self {
            settings,
            buckets: vec![],
            leaked_at: now,
            queue: VecDeque::new(),
            queued_seconds: 0.0,
            queued_bytes: 0,
            drained_seconds: 0.0,
            backlogged_seconds: 0.0,
            drained_at: now,
        };
        tenant.make_buckets();
        tenant
    }

    /// Changes the settings. The levels of buckets stay, so that the tenant gets no second burst.
    pub(super) fn set(&mut self, settings: TenantSettings, now: Time) {
        self.leak(now);
        self.settings = settings;
        self.make_buckets();
    }

    fn make_buckets(&mut self) {
        let limits = match &self.settings.share {
            Share::Promised { buckets, .. } => buckets.as_slice(),
            Share::Weighted { .. } => &[],
        };
        // If there was no bucket before, the waiting requests have not been charged yet.
        let waiting = if self.buckets.is_empty() { self.queued_seconds } else { 0.0 };
        let level = |at: usize| self.buckets.get(at).map_or(waiting, |bucket| bucket.level_seconds);
        let bucket =
            |(at, limit): (usize, &RateBurst)| Bucket { limit: *limit, level_seconds: level(at) };
        self.buckets = limits.iter().enumerate().map(bucket).collect();
    }

    fn leak(&mut self, now: Time) {
        let passed = now.saturating_sub(self.leaked_at).as_secs_f64();
        self.leaked_at = self.leaked_at.max(now);
        for bucket in &mut self.buckets {
            bucket.level_seconds = (bucket.level_seconds - bucket.limit.rate * passed).max(0.0);
        }
    }

    /// Whether another request may wait.
    pub(super) fn has_room(&self) -> bool {
        self.queue.len() < self.settings.queue_requests
            && self.queued_bytes < self.settings.queue_bytes
    }

    pub(super) fn push(&mut self, id: RequestId, request: &NewRequest, now: Time) {
        self.leak(now);
        self.fade(now);
        let NewRequest { kind, bytes, work: as_work, deadline, .. } = *request;
        let work = as_work.known_seconds();
        let mut within_at = now;
        for bucket in &mut self.buckets {
            bucket.level_seconds += work;
            let too_much = bucket.level_seconds - bucket.limit.burst_seconds.max(work);
            if too_much > 0.0 {
                let wait = rounded_up(too_much / bucket.limit.rate).unwrap_or(Time::MAX);
                within_at = within_at.max(now.saturating_add(wait));
            }
        }
        let request = Queued { id, kind, bytes, work: as_work, deadline, came_at: now, within_at };
        self.queued_seconds += work;
        self.queued_bytes += u64::from(request.bytes);
        self.queue.push_back(request);
    }

    /// Takes the next request out of the queue to send it. If the tenant is outside its limits, the
    /// request takes only the tokens that are left.
    pub(super) fn pop(&mut self, is_within: bool, now: Time) -> Option<Queued> {
        self.leak(now);
        self.fade(now);
        let request = self.queue.pop_front()?;
        let work = request.work.known_seconds();
        if !is_within {
            for bucket in &mut self.buckets {
                let tokens = bucket.tokens(self.queued_seconds);
                let after = (tokens - work).max(tokens.min(0.0));
                bucket.level_seconds -= after - (tokens - work);
            }
        }
        self.forget(&request);
        self.drained_seconds += work;
        Some(request)
    }

    /// Removes a request that will not be sent.
    pub(super) fn remove(&mut self, id: RequestId, now: Time) -> Option<Queued> {
        let at = self.queue.binary_search_by_key(&id, |request| request.id).ok()?;
        let request = self.queue.remove(at)?;
        self.leak(now);
        self.fade(now);
        for bucket in &mut self.buckets {
            let level = bucket.level_seconds - request.work.known_seconds();
            bucket.level_seconds = level.max(0.0);
        }
        self.forget(&request);
        Some(request)
    }

    fn forget(&mut self, request: &Queued) {
        self.queued_bytes -= u64::from(request.bytes);
        self.queued_seconds -= request.work.known_seconds();
        if self.queue.is_empty() {
            // Removes the rounding error that has added up.
            self.queued_seconds = 0.0;
        }
    }

    /// Charges the difference between the true work of a request and the work charged when it came.
    pub(super) fn charge(&mut self, difference_seconds: f64, was_within: bool, now: Time) {
        self.leak(now);
        self.drained_seconds = (self.drained_seconds + difference_seconds).max(0.0);
        for bucket in &mut self.buckets {
            let tokens = bucket.tokens(self.queued_seconds);
            let after = tokens - difference_seconds;
            let after = if was_within { after } else { after.max(tokens.min(0.0)) };
            bucket.level_seconds = (bucket.level_seconds + tokens - after).max(0.0);
        }
    }

    /// How long it takes until every bucket covers the next request; `None` if that never happens.
    pub(super) fn within_after(&mut self, now: Time) -> Option<Duration> {
        self.leak(now);
        let head = self.queue.front()?;
        if self.buckets.is_empty() {
            return None;
        }
        let mut longest = Duration::ZERO;
        for bucket in &self.buckets {
            let needed = match head.work.0 {
                Some(work) => work.min(bucket.limit.burst_seconds) - ROUNDING_SECONDS,
                None => NOT_EMPTY_SECONDS.min(bucket.limit.burst_seconds),
            };
            let missing = needed - bucket.tokens(self.queued_seconds);
            if missing > 0.0 {
                longest = longest.max(rounded_up(missing / bucket.limit.rate)?);
            }
        }
        Some(longest)
    }

    /// How long it takes until all waiting requests are sent, if that is known.
    pub(super) fn expected_wait(&mut self, now: Time) -> Option<Duration> {
        self.fade(now);
        let promised = self.buckets.iter().map(|bucket| bucket.limit.rate).reduce(f64::min);
        // The rate of service is unknown for a tenant whose requests have hardly waited yet.
        let seen = match self.backlogged_seconds >= LEAST_BACKLOG.as_secs_f64() {
            true => self.drained_seconds / self.backlogged_seconds,
            false => 0.0,
        };
        let rate = promised.unwrap_or(0.0).max(seen);
        Duration::try_from_secs_f64(self.queued_seconds / rate).ok()
    }

    /// How long a refused request should wait.
    pub(super) fn retry_wait(&mut self, now: Time) -> Duration {
        let wait = self.expected_wait(now).unwrap_or(MAX_RETRY_WAIT);
        wait.clamp(MIN_RETRY_WAIT, MAX_RETRY_WAIT)
    }

    /// Lets the averages decay up to now.
    fn fade(&mut self, now: Time) {
        let passed = now.saturating_sub(self.drained_at);
        self.drained_at = self.drained_at.max(now);
        let fade = (-passed.as_secs_f64() / DRAIN_WINDOW.as_secs_f64()).exp();
        self.drained_seconds *= fade;
        self.backlogged_seconds *= fade;
        if !self.queue.is_empty() {
            self.backlogged_seconds += passed.as_secs_f64();
        }
    }

    pub(super) fn state(&mut self, now: Time) -> TenantState {
        self.leak(now);
        TenantState {
            queued_requests: self.queue.len(),
            queued_seconds: self.queued_seconds,
            tokens_seconds: self
                .buckets
                .iter()
                .map(|bucket| bucket.tokens(self.queued_seconds))
                .collect(),
        }
    }
}

/// A time to wait in whole nanoseconds; `None` if it is too long to express. It is rounded up, so
/// that enough tokens are there when it ends.
fn rounded_up(seconds: f64) -> Option<Duration> {
    let nanos = (seconds * 1e9).ceil();
    (nanos < u64::MAX as f64).then(|| Duration::from_nanos(nanos as u64))
}

impl Bucket {
    fn tokens(&self, queued_seconds: f64) -> f64 {
        self.limit.burst_seconds - self.level_seconds + queued_seconds
    }
}
