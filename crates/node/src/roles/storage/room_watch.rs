//! Writes to the cluster log when a node's disk becomes full, and when it has free space again.
//!
//! If the cluster log cannot take an event because its own disk is full, this module keeps the
//! event with its time. It appends the event once there is space.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use nacre::{Cluster, Event, Severity};
use nacre_clock::Clock;
use nacre_embedded::EmbeddedEngine;
use nacre_object::NodeName;
use tokio::task::JoinHandle;

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(1);
/// The least time between two events that say that the disk is full. Without it, a disk that is
/// almost full all the time would fill the cluster log.
const SILENCE: Duration = Duration::from_secs(60);
/// Events kept until the log takes them: more than come in an hour.
const MAX_UNTOLD: usize = 128;

/// Checks the disk until this value is dropped.
#[derive(Debug)]
pub(super) struct RoomWatch(JoinHandle<()>);

impl RoomWatch {
    /// Checks the disk now, and again periodically. Needs a tokio runtime.
    pub fn start(
        engine: EmbeddedEngine,
        cluster: Cluster,
        node: NodeName,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self(tokio::spawn(async move {
            let (mut told, mut untold) = (Told::default(), VecDeque::new());
            loop {
                let stats = engine.stats();
                let (free, reserve) = (stats.free_bytes, stats.reserve_bytes);
                if told.is_due(free < reserve, clock.monotonic()) && untold.len() < MAX_UNTOLD {
                    let mut event = event(free, reserve).node(node.clone());
                    event.at_micros = clock.now_micros();
                    untold.push_back(event);
                }
                append(&cluster, &mut untold).await;
                tokio::time::sleep(INTERVAL).await;
            }
        }))
    }
}

impl Drop for RoomWatch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Appends events in order, until the log refuses one.
async fn append(cluster: &Cluster, untold: &mut VecDeque<Event>) {
    while let Some(event) = untold.front() {
        if cluster.events().append(event.clone()).await.is_err() {
            return;
        }
        untold.pop_front();
    }
}

fn event(free: u64, reserve: u64) -> Event {
    let left = format!("{free} bytes of its disk are left, of which {reserve} are reserved");
    match free < reserve {
        true => {
            let what = "the node is full: it reads and removes, and nothing grows";
            let hint =
                "remove objects (`nacre object rm`), trim logs (`nacre log trim`) or free the disk";
            Event::new(Severity::Warning, format!("{what}; {left}; {hint}"))
        }
        false => Event::new(Severity::Info, format!("the node has room again; {left}")),
    }
}

/// The state in the last event (full or not), and the time of the last event that the disk is full.
#[derive(Debug, Default)]
struct Told {
    is_full: bool,
    full_at: Option<Duration>,
}

impl Told {
    /// Whether the cluster log must get an event about this state now; if so, remembers the event
    /// as written. An event that a full disk has free space again is never left out.
    fn is_due(&mut self, is_full: bool, now: Duration) -> bool {
        let is_silent = is_full && self.full_at.is_some_and(|at| now < at + SILENCE);
        if is_full == self.is_full || is_silent {
            return false;
        }
        self.is_full = is_full;
        if is_full {
            self.full_at = Some(now);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_becomes_full_is_reported_at_once_but_at_most_once_a_minute() {
        let mut told = Told::default();
        let mut due = |is_full, second| told.is_due(is_full, Duration::from_secs(second));
        assert!(!due(false, 0), "a disk with room is no news");
        assert!(due(true, 1) && !due(true, 2));
        assert!(due(false, 3) && !due(false, 4));
        assert!(!due(true, 60) && !due(false, 60), "the disk was full a moment ago");
        assert!(due(true, 61) && due(false, 200));
    }
}
