//! Putting what happens again and again into the cluster log, each kind of it once in a while.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::report_rate::{Report, ReportRate, Sited};
use super::{Event, Events};

/// What waits for the reporter. It does little, so more than this means the cluster log does not
/// answer; more is left out.
const MAX_WAITING: usize = 1024;

/// Takes what happens to the cluster log. It ends with its last clone.
#[derive(Debug, Clone)]
pub(crate) struct RatedReporter<T>(mpsc::Sender<T>);

impl<T: Sited> RatedReporter<T> {
    /// A reporter that tells of each site at most once a `window`, by the event that `event` makes
    /// of the last that happened there, and how often. Needs a tokio runtime.
    pub(crate) fn start(
        events: Events,
        window: Duration,
        event: impl Fn(T, u64) -> Event + Send + 'static,
    ) -> Self {
        let (happenings, waiting) = mpsc::channel(MAX_WAITING);
        tokio::spawn(report_all(waiting, events, ReportRate::new(window), event));
        Self(happenings)
    }

    /// Takes what happened. Never waits; callable from any thread.
    pub(crate) fn report(&self, what: T) {
        // Full or closed: whoever was concerned has been told, which is what must not be lost.
        let _ = self.0.try_send(what);
    }
}

async fn report_all<T: Sited>(
    mut waiting: mpsc::Receiver<T>,
    events: Events,
    mut rate: ReportRate<T>,
    event: impl Fn(T, u64) -> Event,
) {
    let started = Instant::now();
    loop {
        let reports: Vec<Report<T>> = tokio::select! {
            what = waiting.recv() => match what {
                Some(what) => rate.happened(what, started.elapsed()).into_iter().collect(),
                None => return,
            },
            () = due(rate.next_due().map(|due| started + due)) => rate.due(started.elapsed()),
        };
        for Report { what, count } in reports {
            // The log was asked again for some seconds; the node has more urgent things to do.
            let _ = events.append(event(what, count)).await;
        }
    }
}

async fn due(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
