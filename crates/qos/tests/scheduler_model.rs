//! Compares the scheduler with a slow scheduler that recomputes everything for each decision. The
//! two must make the same decisions.
//!
//! Times, work and rates are multiples of powers of two, so that the two compute without rounding
//! errors.

mod common;
mod slow_scheduler;

use std::time::Duration;

use common::bucket;
use nacre_clock::Random;
use nacre_conformance::SeedCases;
use nacre_qos::IoKind;
use nacre_qos::scheduler::{
    DeviceLimits, KindLimits, NewRequest, Next, Scheduler, TenantId, TenantSettings, Ties, Work,
};
use slow_scheduler::{Request, SlowScheduler};

const CASES: SeedCases =
    SeedCases { file: "scheduler_seeds.txt", text: include_str!("scheduler_seeds.txt") };
/// A 512th of a second, which both a `Duration` and an `f64` hold exactly.
const STEP: Duration = Duration::from_nanos(1_953_125);

struct Pair {
    random: Random,
    now: Duration,
    fast: Scheduler,
    slow: SlowScheduler,
    ids: Vec<TenantId>,
    seen: Seen,
}

/// What has happened.
#[derive(Debug, Default)]
struct Seen {
    within: u64,
    outside: u64,
    refused: u64,
    held_back: u64,
    late: u64,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let mut random = Random::seeded(seed);
        let mut limits = || KindLimits {
            requests: 1 + random.below(4) as usize,
            bytes: 4096 * (1 + random.below(8)),
        };
        let limits = DeviceLimits { reads: limits(), writes: limits() };
        let ties = if random.one_in(2) { Ties::Turns } else { Ties::FirstCome };
        let mut fast = Scheduler::new(limits, ties).unwrap();
        let mut slow = SlowScheduler::new(limits, ties);
        let mut ids = vec![];
        for _ in 0..1 + random.below(7) {
            let settings = settings(&mut random);
            ids.push(fast.add_tenant(settings.clone(), Duration::ZERO).unwrap());
            slow.add_tenant(settings);
        }
        Self { random, now: Duration::ZERO, fast, slow, ids, seen: Seen::default() }
    }

    fn step(&mut self) {
        match self.random.below(8) {
            0 => self.now += STEP * self.random.below(200) as u32,
            1..=3 => self.enqueue(),
            4 | 5 => self.next(),
            6 => self.complete(),
            _ if self.random.one_in(4) => self.cancel(),
            _ => self.compare_tokens(),
        }
    }

    fn enqueue(&mut self) {
        let at = self.random.below(self.ids.len() as u64) as usize;
        let kind = *self.random.pick(&IoKind::ALL).unwrap();
        let bytes = 4096 * self.random.below(8) as u32;
        let work = (!self.random.one_in(6)).then(|| self.random.below(128) as f64 / 512.0);
        let as_work = work.map_or(Work::UNKNOWN, |work| Work::seconds(work).unwrap());
        let request =
            NewRequest { tenant: self.ids[at], kind, bytes, work: as_work, deadline: None };
        match self.fast.enqueue(request, self.now) {
            Ok(id) => {
                let is_taken = self.slow.enqueue(
                    at,
                    Request { id, kind, bytes, work, within_at: self.now },
                    self.now,
                );
                assert!(is_taken, "only the slow scheduler refuses");
            }
            Err(refused) => {
                let own = &self.slow.tenants[at];
                let bytes: u64 = own.queue.iter().map(|request| u64::from(request.bytes)).sum();
                let is_full = own.queue.len() >= own.settings.queue_requests
                    || bytes >= own.settings.queue_bytes;
                assert!(is_full, "{refused:?} with room");
                self.seen.refused += 1;
            }
        }
    }

    fn next(&mut self) {
        let expected = self.slow.next(self.now);
        let decided = match self.fast.next(self.now) {
            Next::Send(sent) => {
                let tenant = self.ids.iter().position(|id| *id == sent.tenant).unwrap();
                Some((tenant, sent.request, sent.is_within))
            }
            Next::Nothing { deadline: None } => None,
            other => panic!("{other:?} without deadlines"),
        };
        assert_eq!(decided, expected, "at {:?}", self.now);
        match decided {
            Some((_, _, true)) => self.seen.within += 1,
            Some((_, _, false)) => self.seen.outside += 1,
            None if self.fast.queued() > 0 => {
                assert!(self.fast.outstanding() > 0, "the device idles while requests wait");
                self.seen.held_back += 1;
            }
            None => {}
        }
    }

    fn complete(&mut self) {
        let outstanding = self.slow.outstanding();
        assert_eq!(outstanding.len(), self.fast.outstanding());
        let Some(id) = self.random.pick(&outstanding).copied() else { return };
        let work = self.random.one_in(2).then(|| self.random.below(128) as f64 / 512.0);
        self.seen.late += u64::from(work.is_some());
        assert!(self.fast.complete(id, work, self.now));
        assert!(!self.fast.complete(id, work, self.now), "a request ends once");
        self.slow.complete(id, work, self.now);
    }

    fn cancel(&mut self) {
        let at = self.random.below(self.ids.len() as u64) as usize;
        let Some(request) = self.random.pick(&self.slow.tenants[at].queue).copied() else { return };
        assert!(self.fast.cancel(self.ids[at], request.id, self.now));
        self.slow.cancel(at, request.id, self.now);
    }

    fn compare_tokens(&mut self) {
        for (at, id) in self.ids.iter().enumerate() {
            let state = self.fast.tenant(*id, self.now).unwrap();
            assert_eq!(state.tokens_seconds, self.slow.tokens(at, self.now));
            assert_eq!(state.queued_requests, self.slow.tenants[at].queue.len());
        }
    }
}

fn settings(random: &mut Random) -> TenantSettings {
    let settings = match random.below(3) {
        0 => TenantSettings::weighted([0.5, 1.0, 2.0, 4.0][random.below(4) as usize]),
        _ => {
            let priority = random.below(3) as u32;
            let buckets = (0..1 + random.below(3)).map(|_| {
                bucket(random.below(8) as f64 / 8.0, (1 + random.below(64)) as f64 / 128.0)
            });
            TenantSettings::promised(priority, buckets.collect())
        }
    };
    let queue_requests = 1 + random.below(12) as usize;
    TenantSettings { queue_requests, queue_bytes: 4096 * (1 + random.below(40)), ..settings }
}

#[test]
fn every_decision_equals_that_of_the_slow_scheduler() {
    let mut all = Seen::default();
    let count = CASES.each(150, |seed| {
        let mut pair = Pair::new(seed);
        for _ in 0..600 {
            pair.step();
        }
        all.within += pair.seen.within;
        all.outside += pair.seen.outside;
        all.refused += pair.seen.refused;
        all.held_back += pair.seen.held_back;
        all.late += pair.seen.late;
    });
    println!("{count} seeds: {all:?}");
    let least = [all.within, all.outside, all.refused, all.held_back, all.late];
    assert!(count < 100 || least.into_iter().min() > Some(100), "{all:?}");
}
