//! How long to wait before a store that did not answer is asked again.

use std::time::Duration;

use nacre_clock::Random;

/// The first pause is at most this long. It is short, because a restarted store may answer again
/// soon.
const FIRST: Duration = Duration::from_millis(10);
/// No pause is longer. So a waiting caller notices within this time that the store is back.
const LONGEST: Duration = Duration::from_secs(2);

/// Pauses before retries. A bound doubles with each pause, up to a maximum. Each pause is drawn at
/// random between half of the bound and the bound, so that waiting processes do not retry at the
/// same time.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    random: Random,
}

impl Backoff {
    /// Waits that differ from everybody else's.
    pub(crate) fn new() -> Self {
        Self::seeded(Random::from_system().next_u64())
    }

    pub(crate) fn seeded(seed: u64) -> Self {
        Self { next: FIRST, random: Random::seeded(seed) }
    }

    /// The store answered: the next wait is short again.
    pub(crate) fn reset(&mut self) {
        self.next = FIRST;
    }

    /// How long to wait now; longer the next time.
    pub(crate) fn next(&mut self) -> Duration {
        let ceiling = u64::try_from(self.next.as_micros()).unwrap_or(u64::MAX);
        self.next = (self.next * 2).min(LONGEST);
        Duration::from_micros(ceiling / 2 + self.random.below(ceiling / 2 + 1))
    }

    /// Waits.
    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep(self.next()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_start_over_after_an_answer() {
        let mut backoff = Backoff::seeded(7);
        let waits: Vec<_> = (0..40).map(|_| backoff.next()).collect();
        assert!(waits[0] <= FIRST && waits[0] >= FIRST / 2);
        assert!(waits.iter().all(|wait| *wait <= LONGEST));
        assert!(waits[39] >= LONGEST / 2);
        backoff.reset();
        assert!(backoff.next() <= FIRST);
    }
}
