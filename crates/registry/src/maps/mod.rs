//! Maps: strongly consistent, epoch-numbered service metadata that can be watched.
//!
//! The map NAME is the object `map/NAME` of the system pool, with the native class `map`:
//! - `class` commits, reads and keeps history, inside the object;
//! - `handle` is the client's side: retry, watch, triggers;
//! - `policy` runs the program bound to the map, inside the commit.

mod binding;
mod class;
mod decision;
mod entry_guard;
mod format;
mod handle;
mod history;
mod object;
mod policy;
mod state;
#[cfg(test)]
pub(crate) mod testing;
mod triggers;
mod watcher;

pub use class::map_class;
pub(crate) use entry_guard::EntryGuard;
pub(crate) use format::commit_keys;
#[cfg(test)]
pub(crate) use format::{commit_input, triggered_commit_input};
pub use handle::Maps;
pub use history::History;
pub(crate) use policy::{PolicyError, check_policy};
pub use state::{Change, EpochRecord, MapEvent, MapState, Origin};
pub use watcher::MapWatcher;
