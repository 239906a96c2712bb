//! An open loop: requests with fixed times, which do not wait for earlier answers. Replays of traces
//! use it.
//!
//! A latency counts from the time at which the request was due. So a stall adds to the latency of
//! every request that was due during the stall.

use std::sync::Arc;
use std::time::Duration;

use nacre_clock::Clock;
use nacre_object::{Error, ErrorKind, Result};
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};

/// The most requests in flight. Beyond it requests are sent late, and their lag shows it.
const MAX_IN_FLIGHT: usize = 16_384;

/// A request that was answered.
#[derive(Debug, Clone)]
pub struct Answered {
    /// When it was due, from the beginning of the loop.
    pub due: Duration,
    /// How late it was sent.
    pub lag: Duration,
    /// The time from when it was due until its answer.
    pub latency: Duration,
    /// Why it failed; `None` if it succeeded.
    pub failure: Option<ErrorKind>,
}

/// Sends each request when it is due, and waits for all answers. The times count from `began`, a
/// reading of `clock`. The requests must be sorted by time.
///
/// # Errors
/// `Unavailable` if the task of a request ends early. A failed request is only recorded.
pub async fn open_loop<R>(
    clock: &Arc<dyn Clock>,
    began: Duration,
    requests: impl IntoIterator<Item = (Duration, R)>,
) -> Result<Vec<Answered>>
where
    R: Future<Output = Result<()>> + Send + 'static,
{
    let (mut sent, in_flight) = (JoinSet::new(), Arc::new(Semaphore::new(MAX_IN_FLIGHT)));
    let mut answered = vec![];
    for (due, request) in requests {
        let now = clock.monotonic().saturating_sub(began);
        if due > now {
            tokio::time::sleep(due - now).await;
        }
        while let Some(ended) = sent.try_join_next() {
            answered.push(ended.map_err(cut_off)?);
        }
        let permit = Arc::clone(&in_flight).acquire_owned().await;
        let clock = Arc::clone(clock);
        sent.spawn(async move {
            let _permit = permit;
            let since_due = || clock.monotonic().saturating_sub(began).saturating_sub(due);
            let lag = since_due();
            let outcome = request.await;
            let failure = outcome.err().map(|error| error.kind());
            Answered { due, lag, latency: since_due(), failure }
        });
    }
    while let Some(ended) = sent.join_next().await {
        answered.push(ended.map_err(cut_off)?);
    }
    Ok(answered)
}

fn cut_off(cause: JoinError) -> Error {
    Error::unavailable(format!("the load ended early: {cause}"))
}

#[cfg(test)]
mod tests {
    use nacre_clock::SystemClock;
    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn a_request_is_sent_although_an_earlier_one_has_no_answer() {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let release = Arc::new(Notify::new());
        let waits = |is_first: bool| {
            let release = Arc::clone(&release);
            async move {
                if is_first {
                    release.notified().await;
                    return Ok(());
                }
                release.notify_one();
                Err(Error::not_found("no such object"))
            }
        };
        let requests = [(Duration::ZERO, waits(true)), (Duration::from_millis(1), waits(false))];
        let mut answered = open_loop(&clock, clock.monotonic(), requests).await.unwrap();
        answered.sort_by_key(|one| one.due);
        let failures: Vec<_> = answered.iter().map(|one| one.failure).collect();
        assert_eq!(failures, [None, Some(ErrorKind::NotFound)]);
        assert!(answered[0].latency + answered[0].due >= answered[1].due);
    }
}
