//! Drops copies that nobody needs: of objects that changed, that are not read any more, or that no
//! rule lets copy.
//!
//! The state machine remembers most of them. The others are copies from before a restart, and
//! copies that could not be dropped. To find these, the sweeper asks all other nodes which copies
//! they keep for this one.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nacre_object::{Error, NodeName, Result, TargetName};
use nacre_route::{CopyDrop, CopyToDrop};
use tokio::time::{Instant, sleep};

use super::copy_store::{CopyList, CopyListAsk};
use crate::routes::NodeSwitch;
use crate::routes::service::ROUTE_SERVICE;

/// Between two looks for copies to drop.
const REST: Duration = Duration::from_millis(250);
/// How many copies are dropped between two rests.
const DROPS_AT_ONCE: usize = 64;
/// The least time between two sweeps. A node that is down makes each sweep fail.
const SWEEP_REST: Duration = Duration::from_secs(3);
/// How long a node may take to list some copies.
const LIST_TIME: Duration = Duration::from_secs(5);

/// Drops copies until the task is aborted.
pub(in crate::routes) async fn run(switch: Arc<NodeSwitch>) {
    let mut swept_at: Option<Instant> = None;
    loop {
        sleep(REST).await;
        // A switch that never had rules has made no copies.
        if switch.term() == 0 {
            continue;
        }
        let now = switch.now();
        let to_drop = {
            let mut core = switch.core();
            core.copies.tick(now);
            core.copies.take_to_drop(DROPS_AT_ONCE)
        };
        for one in to_drop {
            switch.drop_copy(&one).await;
        }
        let is_rested = swept_at.is_none_or(|at| at.elapsed() >= SWEEP_REST);
        if is_rested && switch.core().copies.take_sweep() {
            swept_at = Some(Instant::now());
            for (target, node) in switch.locations().others() {
                if switch.sweep(&target, &node).await.is_err() {
                    switch.core().copies.not_dropped();
                }
            }
        }
    }
}

impl NodeSwitch {
    async fn drop_copy(&self, one: &CopyToDrop) {
        let dropped = async {
            let place = self.locations().copy(&one.object, &one.target)?;
            let drop = CopyDrop { tag: one.tag };
            self.ask_keeper(&place, "copy-drop", drop.encode()).await
        };
        if dropped.await.is_err() {
            self.core().copies.not_dropped();
        }
    }

    /// Drops the copies at a target that this switch does not know.
    async fn sweep(&self, target: &TargetName, node: &NodeName) -> Result<()> {
        let mut after = None;
        loop {
            let home_target = self.locations().own().to_string();
            let ask = CopyListAsk { home_target, after };
            let input = serde_json::to_vec(&ask).map_err(malformed)?;
            let transport = self.transport()?;
            let input = Bytes::from(input);
            let answer = transport.ask(node, ROUTE_SERVICE, "copies", input, LIST_TIME).await?;
            let list: CopyList = serde_json::from_slice(&answer).map_err(malformed)?;
            for home in list.homes {
                let to_drop = self.core().copies.found(&home.parse()?, target);
                if let Some(one) = to_drop {
                    self.drop_copy(&one).await;
                }
            }
            after = list.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }
}

fn malformed(cause: serde_json::Error) -> Error {
    Error::corrupt(format!("a node's list of copies is malformed: {cause}"))
        .hint("run one release of nacre on all nodes")
}
