//! `HoldingQueue`: holds IO, and releases it at a constant rate: a token bucket with a queue.
//!
//! The queue releases the IO with the least priority number first, and of equal ones the IO that
//! came first. Time comes from outside.
//!
//! **Invariant:** in any interval of `t` seconds, the released IO costs `burst + rate * t` at most,
//! plus the cost of one IO if IO may cost more than the burst. Such an IO is released when the
//! bucket is full, and IO after it waits until its cost is earned.

use std::collections::BTreeMap;
use std::time::Duration;

use nacre_object::{Error, Result};

use crate::limits::{MAX_WAYPOINT_QUEUE, MAX_WAYPOINT_WAIT};
use crate::switch::IoId;

/// How fast a queue releases IO, and how much it holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    /// Cost that is released each second.
    pub rate: f64,
    /// Cost that may be released at once.
    pub burst: f64,
    /// The most IOs that wait.
    pub longest: usize,
}

impl Limit {
    /// Checks the numbers.
    ///
    /// # Errors
    /// `Invalid` for a number out of bounds.
    pub fn check(&self) -> Result<()> {
        let is_positive = |number: f64| number.is_finite() && number > 0.0;
        let wrong = |what: String| Err(Error::invalid(what));
        if !is_positive(self.rate) {
            return wrong(format!("the rate {} is not a number above 0", self.rate));
        }
        if !is_positive(self.burst) {
            return wrong(format!("the burst {} is not a number above 0", self.burst));
        }
        match (1..=MAX_WAYPOINT_QUEUE).contains(&self.longest) {
            true => Ok(()),
            false => wrong(format!(
                "the longest queue is {} IOs; it must be a number from 1 to {MAX_WAYPOINT_QUEUE}",
                self.longest
            )),
        }
    }
}

/// An IO that waits.
#[derive(Debug, Clone, Copy)]
struct Held {
    io: IoId,
    cost: f64,
    until: Duration,
}

/// The position of an IO in the queue: its priority as bits that sort as the number does, and the
/// order of arrival.
type Place = (u64, u64);

/// IO that waits at one waypoint.
#[derive(Debug)]
pub struct HoldingQueue {
    limit: Limit,
    /// What may be released now; below 0 after an IO that cost more than the burst.
    tokens: f64,
    at: Duration,
    held: BTreeMap<Place, Held>,
    arrived: u64,
}

/// The bits of a number, so that they sort as numbers do.
fn sortable(number: f64) -> u64 {
    let bits = number.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

impl HoldingQueue {
    /// An empty queue with a full bucket.
    pub fn new(now: Duration, limit: Limit) -> Self {
        Self { limit, tokens: limit.burst, at: now, held: BTreeMap::new(), arrived: 0 }
    }

    /// How many IOs wait.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Goes by another limit from now on. IO that waits keeps its place, even if it is more than the
    /// new limit allows.
    pub fn set_limit(&mut self, now: Duration, limit: Limit) {
        self.earn(now);
        self.limit = limit;
        self.tokens = self.tokens.min(limit.burst);
    }

    /// Takes an IO. It waits until [`release`](Self::release) returns it.
    ///
    /// # Errors
    /// `Exhausted` if the queue is full.
    pub fn arrive(&mut self, now: Duration, io: IoId, cost: f64, priority: f64) -> Result<()> {
        if self.held.len() >= self.limit.longest {
            let longest = self.limit.longest;
            let text = format!("{longest} IOs wait here already, the most that the program allows");
            return Err(Error::exhausted(text).hint("send IO more slowly, or try again later"));
        }
        self.arrived += 1;
        let until = now.saturating_add(MAX_WAYPOINT_WAIT);
        self.held.insert((sortable(priority), self.arrived), Held { io, cost, until });
        Ok(())
    }

    /// The IO that goes on now, in this order.
    pub fn release(&mut self, now: Duration) -> Vec<IoId> {
        self.earn(now);
        let mut released = vec![];
        while let Some(first) = self.held.first_entry() {
            let cost = first.get().cost;
            if self.tokens < cost.min(self.limit.burst) {
                break;
            }
            self.tokens -= cost;
            released.push(first.remove().io);
        }
        released
    }

    /// The IO that has waited too long. It leaves the queue.
    pub fn expire(&mut self, now: Duration) -> Vec<IoId> {
        let late = self.held.iter().filter(|(_, held)| held.until <= now);
        let late: Vec<Place> = late.map(|(place, _)| *place).collect();
        late.iter().filter_map(|place| self.held.remove(place)).map(|held| held.io).collect()
    }

    /// Lets IO leave that does not wait any more.
    pub fn forget(&mut self, io: IoId) {
        self.held.retain(|_, held| held.io != io);
    }

    /// When to look again: when the first IO can be released, or when one has waited too long.
    /// `None` if no IO waits.
    pub fn next(&self) -> Option<Duration> {
        let (_, first) = self.held.first_key_value()?;
        let missing = (first.cost.min(self.limit.burst) - self.tokens).max(0.0);
        // A rate near 0 gives a time that no `Duration` can hold. Rounding must not wake too early.
        let earned =
            Duration::try_from_secs_f64(missing / self.limit.rate).unwrap_or(Duration::MAX);
        let earned = self.at.saturating_add(earned).saturating_add(Duration::from_micros(1));
        let expired = self.held.values().map(|held| held.until).min()?;
        Some(earned.min(expired))
    }

    fn earn(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.at);
        self.at = self.at.max(now);
        let earned = passed.as_secs_f64() * self.limit.rate;
        self.tokens = (self.tokens + earned).min(self.limit.burst);
    }
}
