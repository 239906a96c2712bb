//! Follows the map `routes`, once for all parts of a node that act on it.

use std::sync::Arc;
use std::time::Duration;

use nacre_registry::{Maps, ROUTES_MAP};
use tokio::sync::watch;
use tokio::time::sleep;

use super::in_force::InForce;
use super::state::{RouteMap, RouteState};

/// The pause after an error of the map.
const AFTER_FAILURE: Duration = Duration::from_millis(250);

/// Sends what the map says to the receivers, each time that it changes, until the task is aborted.
/// If the map is malformed, they keep what it said before.
pub(super) async fn follow(maps: Maps, states: watch::Sender<RouteState>, in_force: Arc<InForce>) {
    let Ok(name) = ROUTES_MAP.parse() else { return };
    let map = RouteMap::new(maps.clone());
    let mut watcher = maps.watch(&name, 0);
    loop {
        match map.state().await {
            Ok(state) => states.send_replace(state),
            Err(error) => {
                in_force.note_problem(&error);
                sleep(AFTER_FAILURE).await;
                continue;
            }
        };
        if watcher.next().await.is_err() {
            sleep(AFTER_FAILURE).await;
        }
    }
}
