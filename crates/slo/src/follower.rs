//! Follows the map `slo`: a node applies each commit within a moment.

use std::sync::Arc;

use nacre_object::Result;
use nacre_registry::{Maps, SLO_MAP};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::limits::READ_AGAIN;
use crate::{NodeSlo, SloState};

/// Applies the map `slo` to a node, now and after every change, until the task is aborted. A
/// malformed map changes nothing: the last valid state stays in force.
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
            // The map is read again for any event.
            let _ = watcher.next().await;
        }
    })
}

/// What the map says now.
pub(crate) async fn read(maps: &Maps) -> Result<SloState> {
    SloState::of(&maps.get(&SLO_MAP.parse()?).await?)
}
