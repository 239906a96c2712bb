//! Whether a node's disk has room, told in the cluster log when that changes.

use std::sync::Arc;
use std::time::Duration;

use nacre::{Cluster, Event, Severity};
use nacre_clock::Clock;
use nacre_embedded::EmbeddedEngine;
use nacre_object::NodeName;
use tokio::task::JoinHandle;

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(1);
/// What was told stays true for so long, as far as the log is concerned: a disk about its reserve would fill it.
const SILENCE: Duration = Duration::from_secs(60);

/// Looks as long as this lives.
#[derive(Debug)]
pub(crate) struct RoomWatch(JoinHandle<()>);

impl RoomWatch {
    /// Looks now and from now on. Needs a tokio runtime.
    pub fn start(
        engine: EmbeddedEngine,
        cluster: Cluster,
        node: NodeName,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self(tokio::spawn(async move {
            let mut told = Told::default();
            loop {
                let stats = engine.stats();
                let (free, reserve) = (stats.free_bytes, stats.reserve_bytes);
                if told.is_due(free < reserve, clock.monotonic()) {
                    let event = event(free, reserve).node(node.clone());
                    // The status says it as well.
                    let _ = cluster.events().append(event).await;
                }
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

fn event(free: u64, reserve: u64) -> Event {
    let left = format!("{free} bytes of its disk are left, of which {reserve} are reserved");
    match free < reserve {
        true => {
            let what = "the node is full: it reads and removes, and nothing grows";
            Event::new(Severity::Warning, format!("{what}; {left}"))
        }
        false => Event::new(Severity::Info, format!("the node has room again; {left}")),
    }
}

/// What was told last, and when.
#[derive(Debug, Default)]
struct Told {
    is_full: bool,
    at: Option<Duration>,
}

impl Told {
    /// Whether it is to be told now; if so, it is taken for told.
    fn is_due(&mut self, is_full: bool, now: Duration) -> bool {
        let is_due = is_full != self.is_full && self.at.is_none_or(|at| now >= at + SILENCE);
        if is_due {
            *self = Self { is_full, at: Some(now) };
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_is_told_and_not_more_than_once_a_minute() {
        let mut told = Told::default();
        let mut due = |is_full, second| told.is_due(is_full, Duration::from_secs(second));
        assert!(!due(false, 0), "room is what is expected");
        assert!(due(true, 1) && !due(true, 2));
        assert!(!due(false, 60) && due(false, 61));
        assert!(!due(true, 62) && due(true, 121));
    }
}
