//! Maps: strongly consistent, epoch-numbered service metadata that can be watched.
//!
//! The map NAME is the object `map/NAME` of the system pool, with the native class `map`:
//! - `class` commits, reads and keeps history, inside the object; `deletion` deletes the map;
//! - `handle` is the client's side: it retries commits, watches maps and carries out triggers;
//! - `change_feed` runs on a node and sends the changes of some maps to their watchers;
//! - `policy` runs the program bound to the map, inside the commit.

mod binding;
mod change_feed;
mod class;
mod decision;
mod deletion;
mod entry_guard;
mod feed_state;
mod format;
mod handle;
mod history;
mod object;
mod own;
mod policy;
mod state;
#[cfg(test)]
pub(crate) mod testing;
mod triggers;
mod watcher;

#[cfg(feature = "programs")]
pub(crate) use {
    class::check_commit_bytes,
    object::MapObject,
    own::check_triggered,
    policy::{Policy, Proposal, Verdict},
};

pub use change_feed::ChangeFeed;
pub use class::map_class;
pub(crate) use entry_guard::EntryGuard;
#[cfg(test)]
pub(crate) use feed_state::FeedState;
#[cfg(test)]
pub(crate) use format::{commit_input, deletion_input, log_commit_input, triggered_commit_input};
pub(crate) use format::{commit_keys, deleted_map};
pub use handle::Maps;
pub(crate) use handle::{MAP_CLASS, MAP_OBJECT_PREFIX};
pub use history::History;
pub use own::{
    BALANCER_MAP, ENTITIES_MAP, LAYOUTS_MAP, LOG_MAP_PREFIX, NODES_MAP, POOLS_MAP,
    PROGRAM_STATUS_MAP, PROGRAMS_MAP, RESOURCE_MAP_PREFIX, ROUTE_CONTROL_MAP, ROUTE_GATEWAYS_MAP,
    ROUTES_MAP, SLO_CLAIMS_MAP, SLO_MAP, is_system_map,
};
pub(crate) use own::{COMMON_MAPS, is_own_map, log_of_map};
pub use state::{Change, EpochRecord, MapEvent, MapState, Origin};
pub use watcher::MapWatcher;
