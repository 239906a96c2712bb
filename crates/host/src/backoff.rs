//! The pauses of a client that asks a silent node again and again.

use std::time::Duration;

use nacre_clock::Random;

const FIRST: Duration = Duration::from_millis(5);
/// The longest pause: once the node is back, a waiting client notices it after this time at most.
const LONGEST: Duration = Duration::from_millis(500);

/// Pauses between retries: each is twice as long as the last, up to `LONGEST`. A random part of
/// each pause is left out, so that tasks do not all retry at the same time.
#[derive(Debug)]
pub struct Backoff {
    next: Duration,
    /// Created at the first pause, because most requests need none.
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
