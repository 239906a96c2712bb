//! The tasks of a node's caches: one follows the map `routes`, the other passes the time on.

use std::sync::Arc;
use std::time::Duration;

use nacre_registry::{Maps, ROUTES_MAP};
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::NodeCache;
use crate::routes::RouteState;

/// How long the node waits before it tries a failed step again.
const READ_AGAIN: Duration = Duration::from_millis(250);
/// Profiles of reads count in seconds.
const SECOND: Duration = Duration::from_secs(1);

/// Follows the map and puts its settings in force, until the task is aborted. If the map is
/// malformed, the settings before stay in force. `note` is called with the outcome of each step:
/// the epoch whose settings are in force, or the reason why they are not.
pub(crate) async fn follow(
    caches: Arc<NodeCache>,
    maps: Maps,
    note: impl Fn(nacre_object::Result<u64>),
) {
    let Ok(name) = ROUTES_MAP.parse() else { return };
    let mut watcher = maps.watch(&name, 0);
    loop {
        let state = maps.get(&name).await.and_then(|map| RouteState::of(&map));
        let applied = state.and_then(|state| {
            caches.apply(state.epoch, state.caches)?;
            Ok(state.epoch)
        });
        let has_failed = applied.is_err();
        note(applied);
        if has_failed {
            sleep(READ_AGAIN).await;
            continue;
        }
        // Any event, even an error, is a reason to read the map again.
        let _ = watcher.next().await;
    }
}

/// Tells the caches of each second that has passed, until the task is aborted.
pub(crate) async fn tick(caches: Arc<NodeCache>) {
    let mut seconds = interval(SECOND);
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        seconds.tick().await;
        caches.tick();
    }
}
