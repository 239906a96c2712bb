//! Checks again and again whether the Ceph cluster behind a node answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nacre::{Cluster, Event, Severity};
use nacre_clock::Clock;
use nacre_object::{ErrorKind, NodeName, ObjectId, ObjectName, Op, PoolName, Request, Store};
use tokio::task::JoinHandle;

/// Between two questions.
const INTERVAL: Duration = Duration::from_secs(5);
/// After this time without an answer, the node reports that Ceph is silent. In most cases Ceph has
/// replaced a failed OSD by then.
const SILENT_AFTER: Duration = Duration::from_secs(15);

/// Checks until this value is dropped whether Ceph answers.
#[derive(Debug)]
pub(super) struct CephPulse {
    clock: Arc<dyn Clock>,
    /// Microseconds since 1970, UTC.
    heard_at: Arc<AtomicU64>,
    asking: JoinHandle<()>,
}

impl CephPulse {
    /// Asks Ceph now, and again periodically. Needs a tokio runtime.
    pub fn start(
        store: Arc<dyn Store>,
        cluster: Cluster,
        node: NodeName,
        clock: Arc<dyn Clock>,
    ) -> Self {
        // It has just connected.
        let heard_at = Arc::new(AtomicU64::new(clock.now_micros()));
        let (heard, time) = (Arc::clone(&heard_at), Arc::clone(&clock));
        let asking = tokio::spawn(async move {
            loop {
                if does_answer(&*store).await {
                    let now = time.now_micros();
                    let before = heard.swap(now, Ordering::Relaxed);
                    if let Some(silence) = silence(before, now) {
                        tell(&cluster, &node, silence).await;
                    }
                }
                tokio::time::sleep(INTERVAL).await;
            }
        });
        Self { clock, heard_at, asking }
    }

    /// Since when Ceph has been silent, if that is long: microseconds since 1970, UTC.
    pub fn silent_since_micros(&self) -> Option<u64> {
        self.silence().map(|_| self.heard_at.load(Ordering::Relaxed))
    }

    /// How long Ceph has been silent, if that is long.
    pub fn silence(&self) -> Option<Duration> {
        silence(self.heard_at.load(Ordering::Relaxed), self.clock.now_micros())
    }
}

impl Drop for CephPulse {
    fn drop(&mut self) {
        self.asking.abort();
    }
}

fn silence(heard_at: u64, now: u64) -> Option<Duration> {
    Some(Duration::from_micros(now.saturating_sub(heard_at))).filter(|long| *long > SILENT_AFTER)
}

/// Whether Ceph answers: an OSD must say that there is no such object.
async fn does_answer(store: &dyn Store) -> bool {
    let name: ObjectName = "pulse".parse().expect("it is a name");
    let object = ObjectId::new(PoolName::system(), name);
    let request = Request::new(object, vec![Op::Stat]).expect("it asks for little");
    store.submit(request).await.is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// Reports the silence once Ceph answers again, because the log may be on Ceph.
async fn tell(cluster: &Cluster, node: &NodeName, silence: Duration) {
    let seconds = silence.as_secs();
    let text = format!("the Ceph cluster has not answered for {seconds} seconds, and does again");
    let event = Event::new(Severity::Warning, text).node(node.clone());
    // If the append fails, the event is lost. During the silence the node's status showed it.
    let _ = cluster.events().append(event).await;
}
