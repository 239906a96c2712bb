//! Collects garbage of programs in the background, so that the stored sources stay bounded.

use std::time::Duration;

use nacre_clock::Random;
use nacre_object::NodeName;
use tokio::task::AbortHandle;

use super::{Garbage, Programs};
use crate::events::{Event, Severity};

/// The longest pause between two collections by a node. Each pause is drawn between half of this
/// and this, so that the nodes do not collect at the same time. Until a collection, garbage only
/// costs space.
const EVERY: Duration = Duration::from_secs(6 * 3600);

/// Collects garbage until it is dropped. Several collectors at the same time have the effect of
/// one.
#[derive(Debug)]
pub struct ProgramUpkeep(AbortHandle);

impl Drop for ProgramUpkeep {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl ProgramUpkeep {
    /// Starts to collect garbage of programs on a node, and to report collections to the cluster
    /// log. Needs a tokio runtime.
    pub fn start(programs: Programs, node: NodeName) -> Self {
        Self(tokio::spawn(keep_up(programs, node, Random::from_system())).abort_handle())
    }
}

async fn keep_up(programs: Programs, node: NodeName, mut random: Random) {
    let half_millis = EVERY.as_millis() as u64 / 2;
    loop {
        let wait = half_millis + random.below(half_millis);
        tokio::time::sleep(Duration::from_millis(wait)).await;
        // The next collection finds whatever this one could not collect.
        let Ok(garbage) = programs.collect().await else { continue };
        if let Some(event) = event_of(&garbage) {
            let _ = programs.maps().events().append(event.node(node.clone())).await;
        }
    }
}

/// The event that reports a collection to the cluster log. `None` if nothing was collected.
fn event_of(garbage: &Garbage) -> Option<Event> {
    let Garbage { versions, sources, .. } = garbage;
    if versions.is_empty() && sources.is_empty() {
        return None;
    }
    let text = format!("{} superseded versions of programs removed", versions.len());
    let bytes: u64 = sources.iter().map(|source| source.bytes).sum();
    let event = Event::new(Severity::Info, text).field("sources", sources.len().to_string());
    Some(event.field("bytes", bytes.to_string()))
}
