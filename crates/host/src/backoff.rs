//! How long to wait before asking again a node that did not answer.

use std::time::Duration;

use nacre_clock::Random;

const FIRST: Duration = Duration::from_millis(5);
/// What a waiter loses at most once the node is back.
const LONGEST: Duration = Duration::from_millis(500);

/// The pauses between retries. Each is twice as long as the one before, up to a bound. A random
/// part of up to half of a pause is left out, so that tasks do not all retry at the same time.
#[derive(Debug)]
pub struct Backoff {
    next: Duration,
    /// Made when it is first needed: most questions are answered at once.
    random: Option<Random>,
}

impl Backoff {
    /// Waits from the shortest on.
    #[allow(clippy::new_without_default, reason = "a back-off begins where it is used")]
    pub fn new() -> Self {
        Self { next: FIRST, random: None }
    }

    /// Waits; longer the next time.
    pub async fn wait(&mut self) {
        let half = self.next.as_micros() as u64 / 2;
        let random = self.random.get_or_insert_with(Random::from_system);
        let wait = Duration::from_micros(half + random.below(half + 1));
        self.next = (self.next * 2).min(LONGEST);
        tokio::time::sleep(wait).await;
    }
}
