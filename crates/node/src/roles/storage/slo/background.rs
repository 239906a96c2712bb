//! Lets compaction and scrub of the engine wait until the latency scheduler allows their next step.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use nacre_embedded::Pace;
use nacre_qos::IoKind;
use nacre_slo::{BackgroundWork, NodeSlo};
use tokio::runtime::Handle;

/// The longest time that a step of compaction waits until the latency scheduler lets it run.
/// Requests need the disk space that compaction frees.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Makes compaction wait for the latency scheduler.
#[derive(Debug)]
pub(in super::super) struct CompactionPace {
    slo: Arc<NodeSlo>,
    runtime: Handle,
}

impl CompactionPace {
    /// A pace that the latency scheduler of this process decides. Needs a tokio runtime.
    pub fn new(slo: Arc<NodeSlo>) -> Self {
        Self { slo, runtime: Handle::current() }
    }
}

impl Pace for CompactionPace {
    fn before_compaction(&self, bytes: u64) -> Box<dyn Send> {
        let (turn, waits) = mpsc::sync_channel(1);
        let (slo, bytes) = (Arc::clone(&self.slo), u32::try_from(bytes).unwrap_or(u32::MAX));
        // The runtime may have ended. Then there is no answer, and compaction goes on.
        self.runtime.spawn(async move {
            let work = slo.background(IoKind::Write, bytes).await;
            let _ = turn.send(work.ok().map(|work| Step { work: Some(work), bytes }));
        });
        Box::new(waits.recv_timeout(LONGEST_WAIT).ok().flatten())
    }
}

/// A step of compaction that is under way.
struct Step {
    work: Option<BackgroundWork>,
    bytes: u32,
}

impl Drop for Step {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            work.done(self.bytes.into());
        }
    }
}
