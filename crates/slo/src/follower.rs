//! Follows the map `slo`: a node applies each commit of the map soon after it happens.

use std::sync::Arc;

use nacre_object::{NodeName, Result};
use nacre_registry::{Maps, SLO_MAP};
use nacre_wire::LinkShaper;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::limits::READ_AGAIN;
use crate::{NodeSlo, SloState};

/// Spawns a task that applies the map `slo` to a node, now and after each change. It runs until it
/// is aborted. If the map is malformed, the node keeps the last valid state.
pub fn follow(maps: Maps, node: Arc<NodeSlo>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let Ok(name) = SLO_MAP.parse() else { return };
        let mut watcher = maps.watch(&name, 0);
        loop {
            match read(&maps).await {
                Ok(state) => node.apply(state),
                Err(_) => {
                    sleep(READ_AGAIN).await;
                    continue;
                }
            }
            // Any event, even an error, is a reason to read the map again.
            let _ = watcher.next().await;
        }
    })
}

/// Spawns a task that sets the speed of a node's link, and how tenants share the link. It reads
/// both from the map `slo`, now and after every change, until it is aborted.
pub fn follow_link(maps: Maps, node: NodeName, link: Arc<LinkShaper>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let Ok(name) = SLO_MAP.parse() else { return };
        let mut watcher = maps.watch(&name, 0);
        loop {
            match read(&maps).await {
                Ok(state) => link.set(state.link_settings(&node)),
                Err(_) => {
                    sleep(READ_AGAIN).await;
                    continue;
                }
            }
            // The map is read again for any event.
            let _ = watcher.next().await;
        }
    })
}

/// The present contents of the map.
pub(crate) async fn read(maps: &Maps) -> Result<SloState> {
    SloState::of(&maps.get(&SLO_MAP.parse()?).await?)
}
