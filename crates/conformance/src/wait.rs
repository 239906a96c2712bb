//! Waits for tests, each with a deadline. A test that misses a deadline fails and says what it
//! waited for.
//!
//! A test uses one of these functions for every wait for a message, a process or a state. A test
//! that waits for ever would not say why, and would hide the results of all other tests.

use std::pin::pin;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::sleep;

/// The deadline of every wait, far longer than any test needs even on a busy machine. It is
/// measured with the machine's clock, so it holds for tests that pause or move their own clock too.
pub const DEADLINE: Duration = Duration::from_secs(120);
/// The pause between two checks of a state that sends no notification.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Waits for `work` and returns its outcome.
///
/// # Panics
/// If `work` does not end by the deadline.
pub async fn within_deadline<T>(what: &str, work: impl Future<Output = T>) -> T {
    within(DEADLINE, what, work).await
}

/// Waits for `work` as [`within_deadline`] does, with another deadline.
///
/// # Panics
/// If `work` does not end by the deadline.
pub async fn within<T>(deadline: Duration, what: &str, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    // Most results are there already, and need no alarm.
    if let Poll::Ready(outcome) = futures::poll!(&mut work) {
        return outcome;
    }
    let (_still_waiting, alarm) = alarm(deadline);
    tokio::select! {
        biased;
        outcome = work => outcome,
        _ = alarm => missed(deadline, what),
    }
}

/// Returns a channel that gets a message after this time of the machine's clock. Dropping the
/// returned sender cancels that. A tokio timer would not do: if a test has paused tokio's clock,
/// the clock would jump to the deadline.
fn alarm(deadline: Duration) -> (mpsc::Sender<()>, oneshot::Receiver<()>) {
    let (still_waiting, over) = mpsc::channel();
    let (ring, alarm) = oneshot::channel();
    thread::spawn(move || {
        if over.recv_timeout(deadline) == Err(RecvTimeoutError::Timeout) {
            // The waiting test may have ended just now.
            let _ = ring.send(());
        }
    });
    (still_waiting, alarm)
}

/// Waits until a state is reached.
///
/// # Panics
/// If the state is not reached by the deadline.
pub async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let reached = async {
        while !is_so().await {
            sleep(LOOK_AGAIN).await;
        }
    };
    within_deadline(what, reached).await;
}

/// Waits until a condition holds, in a test without an async runtime.
///
/// # Panics
/// If the condition does not hold by the deadline.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "the deadline of a test is about the machine's time")]
pub fn eventually_blocking(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        if begun.elapsed() > DEADLINE {
            missed(DEADLINE, what);
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// Runs a blocking operation, such as a read of a pipe or a wait for a process, and returns its
/// result.
///
/// # Panics
/// If the operation panics, or does not end by the deadline. In the second case its thread
/// continues to run.
#[track_caller]
pub fn within_deadline_blocking<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (sender, receiver) = mpsc::channel();
    let worker = thread::spawn(move || {
        // After the deadline there is no receiver.
        let _ = sender.send(work());
    });
    match receiver.recv_timeout(DEADLINE) {
        Ok(outcome) => outcome,
        Err(RecvTimeoutError::Timeout) => missed(DEADLINE, what),
        Err(RecvTimeoutError::Disconnected) => match worker.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("it sends before it ends"),
        },
    }
}

#[track_caller]
fn missed(deadline: Duration, what: &str) -> ! {
    panic!("waited {} s in vain: {what}", deadline.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    #[should_panic(expected = "waited 0.05 s in vain: a message that nobody sends")]
    async fn a_wait_that_misses_its_deadline_says_what_it_waited_for() {
        let never = std::future::pending::<()>();
        within(Duration::from_millis(50), "a message that nobody sends", never).await;
    }

    #[tokio::test]
    async fn a_wait_returns_the_outcome() {
        let mut looks = 0;
        eventually_blocking("three looks", || {
            looks += 1;
            looks == 3
        });
        assert_eq!(within_deadline_blocking("a sum", || 1 + 1), 2);
        assert_eq!(
            within_deadline("a sum, later", async { tokio::task::yield_now().await }).await,
            ()
        );
        eventually("six looks", async || {
            looks += 1;
            looks == 6
        })
        .await;
    }
}
