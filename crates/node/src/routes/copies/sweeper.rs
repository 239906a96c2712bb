//! Drops copies that nobody needs: of objects that changed, that are not read any more, or that no
//! rule lets copy.
//!
//! The state machine remembers most of them. The others are copies from before a restart, and
//! copies that could not be dropped. To find these, the sweeper asks all other nodes which copies
//! they keep for this one. On Ceph the router looks through the pool of routed bytes. No other gateway
//! has copies: before a gateway becomes the router, the former one is shut out.
//!
//! The same task has the states dropped that are kept for [snapshots](crate::routes::snapshots) of a prefix and
//! that no rule names.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nacre_object::{Error, ListRequest, NodeName, ObjectId, Result, Store, TargetName};
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
/// How many names of the pool of routed bytes are looked at together. RADOS goes over the whole pool
/// for each such page.
const PAGE_NAMES: usize = 4096;

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
            if switch.sweep_all().await.is_err() {
                switch.core().copies.not_dropped();
            }
        }
    }
}

impl NodeSwitch {
    async fn drop_copy(&self, one: &CopyToDrop) {
        let dropped = async {
            let place = match &one.stored_in {
                Some(stored_in) => self.locations().copy_in(stored_in.clone(), &one.target)?,
                None => self.locations().copy(&one.object, &one.target).await?,
            };
            let drop = CopyDrop { tag: one.tag };
            self.change_copy(&place, "copy-drop", drop.encode()).await
        };
        if dropped.await.is_err() {
            self.core().copies.not_dropped();
        }
    }

    /// Drops the copies that this switch does not know. If a node does not answer, those of the others
    /// are dropped nevertheless.
    async fn sweep_all(&self) -> Result<()> {
        if self.locations().rados().is_some() {
            return self.sweep_pool().await;
        }
        let mut swept = Ok(());
        for (target, node) in self.locations().others() {
            swept = self.sweep(&target, &node).await.and(swept);
        }
        swept
    }

    /// Drops the copies in RADOS that this switch does not know.
    async fn sweep_pool(&self) -> Result<()> {
        let (pool, mut after) = (self.locations().pool(), None);
        loop {
            let (pool, prefix) = (pool.clone(), String::new());
            let request = ListRequest { pool: pool.clone(), after, prefix, limit: PAGE_NAMES };
            let listed = self.base().list(request).await?;
            for name in &listed.names {
                let stored_in = ObjectId::new(pool.clone(), name.clone());
                let Some((home, target)) = self.locations().copied_in(&stored_in) else { continue };
                let to_drop = self.core().copies.found(&home, &target, &stored_in);
                if let Some(one) = to_drop {
                    self.drop_copy(&one).await;
                }
            }
            after = listed.names.last().cloned();
            if !listed.more || after.is_none() {
                return Ok(());
            }
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
                let home = home.parse()?;
                let place = self.locations().copy(&home, target).await?;
                let to_drop = self.core().copies.found(&home, target, &place.object);
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
