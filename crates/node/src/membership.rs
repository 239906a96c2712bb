//! A node's entry in the node registry. A background task makes the entry, and the node removes it
//! when it stops.

use std::time::Duration;

use nacre::Cluster;
use nacre_object::ErrorKind;
use tokio::task::JoinHandle;
use tokio::time;

use crate::node_log::{Level, NodeLog};

/// Between the first attempts to register while the registry's target is away...
const REGISTER_AGAIN_MIN: Duration = Duration::from_millis(200);
/// ...and between later ones, so that a node is known soon after the target is back.
const REGISTER_AGAIN_MAX: Duration = Duration::from_secs(2);
/// The longest time that a stopping node waits until the registry has recorded that it leaves. The
/// nodes that keep the registry may be stopping, too.
pub(crate) const LEAVE_TIMEOUT: Duration = Duration::from_millis(500);

/// A node's membership.
#[derive(Debug)]
pub struct Membership {
    cluster: Cluster,
    record: nacre::Node,
    joining: JoinHandle<()>,
}

impl Membership {
    /// Registers the node, in the background, for as long as it takes.
    pub fn join(cluster: Cluster, record: nacre::Node, log: NodeLog) -> Self {
        let joining = tokio::spawn(register(cluster.clone(), record.clone(), log));
        Self { cluster, record, joining }
    }

    /// Says that the node is down.
    pub async fn leave(self) {
        self.joining.abort();
        let nodes = self.cluster.nodes();
        let leaving = nodes.mark_down(&self.record.name, self.record.incarnation);
        // If the report fails, the node looks like one that crashed.
        let _ = time::timeout(LEAVE_TIMEOUT, leaving).await;
    }
}

async fn register(cluster: Cluster, record: nacre::Node, log: NodeLog) {
    let mut pause = REGISTER_AGAIN_MIN;
    loop {
        match cluster.nodes().register(&record).await {
            Ok(_) => return,
            Err(error) if error.kind() == ErrorKind::Stale => {
                log.say(Level::Error, &format!("not registered: {error}"), &[]);
                return;
            }
            Err(error) => {
                if pause == REGISTER_AGAIN_MIN {
                    log.say(Level::Info, &format!("not registered yet, tried again: {error}"), &[]);
                }
                time::sleep(pause).await;
                pause = (2 * pause).min(REGISTER_AGAIN_MAX);
            }
        }
    }
}
