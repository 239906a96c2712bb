//! `BalancerState`: the state of the balancer's map for one node. A task follows the map.

use std::time::Duration;

use nacre_balance::{BalancerSettings, NodeTraits};
use nacre_object::{NodeName, Result};
use nacre_registry::{BALANCER_MAP, Maps};
use tokio::sync::watch;
use tokio::time::sleep;

use super::BalancerContext;

/// How long to wait before reading the map again after a failure.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// The state of the balancer's map, as one node needs it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct BalancerState {
    pub settings: BalancerSettings,
    pub traits: NodeTraits,
}

impl BalancerState {
    async fn read(maps: &Maps, node: &NodeName) -> Result<Self> {
        let state = maps.get(&BALANCER_MAP.parse()?).await?;
        Ok(Self { settings: BalancerSettings::of(&state)?, traits: NodeTraits::of(&state, node)? })
    }

    /// The present state of the map, and every later one. The task ends with the last receiver.
    pub fn follow(context: &BalancerContext) -> watch::Receiver<Self> {
        let (tell, known) = watch::channel(Self::default());
        let (maps, node) = (context.cluster.maps().clone(), context.node.clone());
        tokio::spawn(async move {
            let Ok(map) = BALANCER_MAP.parse() else { return };
            let mut watcher = maps.watch(&map, 0);
            loop {
                let Ok(read) = Self::read(&maps, &node).await else {
                    sleep(READ_AGAIN).await;
                    continue;
                };
                tell.send_if_modified(|known| {
                    let differs = *known != read;
                    *known = read;
                    differs
                });
                tokio::select! {
                    // Read the map again after any event.
                    _ = watcher.next() => {}
                    () = tell.closed() => return,
                }
            }
        });
        known
    }
}
