//! Waits of tests: every one has a deadline, and a test that misses it says what it waited for.
//!
//! A test that waits for a message, a process or a state does so here. A test that hangs says nothing, and keeps
//! whoever runs it from the results of all others.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

/// Longer than anything that a test waits for takes on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(120);
/// Between two looks at a state that tells nobody of its changes.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The outcome of something that ends by the deadline.
///
/// # Panics
/// If it does not.
pub async fn within_deadline<T>(what: &str, work: impl Future<Output = T>) -> T {
    timeout(DEADLINE, work).await.unwrap_or_else(|_| missed(what))
}

/// Waits until a state is reached.
///
/// # Panics
/// If that is not so by the deadline.
pub async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let reached = async {
        while !is_so().await {
            sleep(LOOK_AGAIN).await;
        }
    };
    within_deadline(what, reached).await;
}

/// The same for a test without a runtime.
///
/// # Panics
/// If that is not so by the deadline.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "the deadline of a test is about the machine's time")]
pub fn eventually_blocking(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        if begun.elapsed() > DEADLINE {
            missed(what);
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// The outcome of something that blocks, such as a read of a pipe or a wait for a process, and ends by the
/// deadline.
///
/// # Panics
/// If it does not: then its thread is left behind. If it panics itself.
#[track_caller]
pub fn within_deadline_blocking<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (sender, receiver) = mpsc::channel();
    let worker = thread::spawn(move || {
        // Nobody receives it if the deadline is over.
        let _ = sender.send(work());
    });
    match receiver.recv_timeout(DEADLINE) {
        Ok(outcome) => outcome,
        Err(mpsc::RecvTimeoutError::Timeout) => missed(what),
        Err(mpsc::RecvTimeoutError::Disconnected) => match worker.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("it sends before it ends"),
        },
    }
}

#[track_caller]
fn missed(what: &str) -> ! {
    panic!("waited {} s in vain: {what}", DEADLINE.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "waited 120 s in vain: a message that nobody sends")]
    async fn a_wait_that_misses_its_deadline_says_what_it_waited_for() {
        within_deadline("a message that nobody sends", std::future::pending::<()>()).await;
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "in vain: the impossible")]
    async fn a_state_that_is_never_reached_is_named() {
        eventually("the impossible", async || false).await;
    }

    #[test]
    fn outcomes_are_handed_on() {
        let mut looks = 0;
        eventually_blocking("three looks", || {
            looks += 1;
            looks == 3
        });
        assert_eq!(within_deadline_blocking("a sum", || 1 + 1), 2);
    }
}
