//! Reports repeated events to the cluster log at a limited rate for each site.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::report_rate::{Report, ReportRate, Sited};
use super::{Event, Events};

/// How many occurrences may wait for the reporter; further occurrences are dropped. The reporter
/// does little work, so the queue gets full only if the cluster log does not answer.
const MAX_WAITING: usize = 1024;

/// Reports occurrences to the cluster log. The reporter ends when its last clone is dropped.
#[derive(Debug, Clone)]
pub(crate) struct RatedReporter<T>(mpsc::Sender<T>);

impl<T: Sited> RatedReporter<T> {
    /// Starts a reporter that appends at most one event for each site (such as a line of a program)
    /// in each `window`. `event` makes this event from the site's last occurrence and the number of
    /// occurrences. Needs a tokio runtime.
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
        // If the queue is full or closed, the occurrence is dropped. The caller of the failed
        // operation got the error itself, so only the entry in the cluster log is lost.
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
            // `append` retries for some seconds. If it fails then, the event is dropped.
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
