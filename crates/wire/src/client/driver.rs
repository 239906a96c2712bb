//! The tasks of a session: one keeps it connected, the other ends calls whose deadline has passed.

use std::sync::Arc;
use std::time::Duration;

use nacre_clock::Random;
use nacre_object::Error;
use tokio::time::{sleep, timeout};

use super::link::Link;
use super::shared::Shared;
use crate::limits::{BACKOFF_MAX, BACKOFF_MIN, CONNECT_TIMEOUT, SWEEP_INTERVAL};

/// Starts both. They end when the session is closed.
pub(crate) fn start(shared: &Arc<Shared>) {
    for task in [Task::Connect, Task::Sweep] {
        let shared = shared.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = shared.until_closed() => {}
                () = async {
                    match task {
                        Task::Connect => stay_connected(&shared).await,
                        Task::Sweep => sweep(&shared).await,
                    }
                } => {}
            }
        });
    }
}

enum Task {
    Connect,
    Sweep,
}

/// Connects, reads until the connection ends, and connects again.
async fn stay_connected(shared: &Shared) {
    let mut backoff = Backoff::new(Random::from_system());
    loop {
        let dialling = Link::dial(&shared.endpoint, &shared.options);
        match timeout(CONNECT_TIMEOUT, dialling).await {
            Ok(Ok(link)) => {
                // A node may accept the session and then fail at once. Back off in this case as if
                // the node were down.
                if converse(shared, link).await {
                    backoff.reset();
                }
            }
            Ok(Err(failure)) => shared.failed(failure),
            Err(_) => shared.failed(Error::unavailable("the node does not answer")),
        }
        sleep(backoff.next()).await;
    }
}

/// Uses a connection until it ends; whether it was of use.
async fn converse(shared: &Shared, mut link: Link) -> bool {
    shared.connected(link.outbox.clone(), link.pace.clone(), link.node.clone());
    let failure = link.hear(shared).await;
    shared.disconnected(&link.outbox, failure);
    link.was_of_use
}

/// Ends the wait of callers whose deadline has passed. Sleeps while there are no callers.
async fn sweep(shared: &Shared) {
    loop {
        shared.sweep.notified().await;
        loop {
            sleep(SWEEP_INTERVAL).await;
            if !shared.expire() {
                break;
            }
        }
    }
}

/// The pauses between attempts to connect. Each pause is twice as long as the previous one, minus a
/// random part. So the clients of a restarted node do not all connect at once.
struct Backoff {
    next: Duration,
    random: Random,
}

impl Backoff {
    fn new(random: Random) -> Self {
        Self { next: BACKOFF_MIN, random }
    }

    fn reset(&mut self) {
        self.next = BACKOFF_MIN;
    }

    fn next(&mut self) -> Duration {
        let full = self.next;
        self.next = (full * 2).min(BACKOFF_MAX);
        let half = full / 2;
        half + Duration::from_micros(self.random.below(half.as_micros() as u64 + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_between_attempts_grow_to_their_bound_and_vary() {
        let mut backoff = Backoff::new(Random::seeded(1));
        let rests: Vec<_> = (0..20).map(|_| backoff.next()).collect();
        assert!(rests[0] <= BACKOFF_MIN);
        assert!(rests.iter().all(|rest| *rest <= BACKOFF_MAX));
        let longest = &rests[12..];
        assert!(longest.iter().all(|rest| *rest >= BACKOFF_MAX / 2));
        assert!(longest.windows(2).any(|pair| pair[0] != pair[1]));
        backoff.reset();
        assert!(backoff.next() <= BACKOFF_MIN);
    }
}
