//! The tasks of a node's caches: one follows the map `routes`, the other passes the time on.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::NodeCache;
use crate::routes::RouteState;

/// Profiles of reads count in seconds.
const SECOND: Duration = Duration::from_secs(1);

/// Puts the settings of the map in force, each time that it changes, until the task is aborted.
/// `note` is called with the outcome: the epoch whose settings are in force, or the reason why they
/// are not. Then the settings before stay in force.
pub(crate) async fn follow(
    caches: Arc<NodeCache>,
    mut states: watch::Receiver<RouteState>,
    note: impl Fn(nacre_object::Result<u64>),
) {
    while states.changed().await.is_ok() {
        let state = states.borrow_and_update().clone();
        note(caches.apply(state.epoch, state.caches).map(|()| state.epoch));
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
