//! A storage target that must not serve from its folder, and how its node continues meanwhile.
//!
//! The node runs nevertheless, so clients and `nacre status` learn the reason at once. If the node
//! were down, a client could conclude that the objects of this target do not exist.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nacre::{Cluster, ClusterFile, Event, Severity, TargetFolder};
use nacre_embedded::Damage;
use nacre_object::{
    Capabilities, Error, ListPage, ListRequest, NodeName, ObjectId, Reply, Request, Result, Store,
    Watch, WatchStream,
};
use tokio::time;

/// The time between two checks whether the folder is in order again.
const INTERVAL: Duration = Duration::from_secs(1);

/// The node tries again to open a refused folder after this time, even if nothing in the folder has
/// changed. The disk may have been full, or another process may have held the folder.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// The store of such a target: every request fails with the reason.
#[derive(Debug)]
pub(super) struct RefusedTarget(Error);

impl RefusedTarget {
    /// A store that answers every request with this reason.
    pub fn new(reason: Error) -> Self {
        Self(reason)
    }
}

#[async_trait]
impl Store for RefusedTarget {
    async fn submit(&self, request: Request) -> Result<Reply> {
        Err(self.0.clone().on(&request.header.object))
    }

    async fn list(&self, _: ListRequest) -> Result<ListPage> {
        Err(self.0.clone())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::all()
    }
}

#[async_trait]
impl Watch for RefusedTarget {
    async fn watch(&self, object: &ObjectId) -> Result<WatchStream> {
        Err(self.0.clone().on(object))
    }

    async fn notify(&self, object: &ObjectId, _: Bytes) -> Result<()> {
        Err(self.0.clone().on(object))
    }
}

/// If a node's target does not serve, appends the reason to the cluster log. The append may fail,
/// because the log itself may be stored on that target; the node's status shows the reason in any
/// case.
pub(super) fn tell(cluster: &Cluster, node: &NodeName, reason: Option<&Error>) {
    let Some(reason) = reason else { return };
    append(cluster, Event::new(Severity::Error, reason.message()).node(node.clone()));
}

/// Appends to the cluster log which vital files of a node's store were damaged and have been
/// restored from their copies.
pub(super) fn tell_mended(cluster: &Cluster, node: &NodeName, damages: &[Damage]) {
    for damage in damages {
        let text = format!(
            "{}: {}; it was written anew from its copy, nothing is lost. Look at the disk",
            damage.place, damage.problem
        );
        append(cluster, Event::new(Severity::Warning, text).node(node.clone()));
    }
}

fn append(cluster: &Cluster, event: Event) {
    let events = cluster.events().clone();
    tokio::spawn(async move { events.append(event).await });
}

/// Returns once it is worth opening the folder of a node's target again: a file in a damaged folder
/// has changed, or [`TRY_AGAIN_AFTER`] has passed.
pub(super) async fn until_in_order(cluster: &ClusterFile, node: &str) {
    let folder = |cluster: &ClusterFile| {
        let entry = cluster.node(node).ok()?;
        Some((TargetFolder::of(cluster, entry), cluster.data(entry)))
    };
    let Some((target, data)) = folder(cluster) else { return std::future::pending().await };
    let is_damaged = target.refusal().is_none();
    let found = fingerprint(&data);
    let try_again = time::Instant::now() + TRY_AGAIN_AFTER;
    loop {
        time::sleep(INTERVAL).await;
        // The file is read again each time, because it changes when a target is forgotten.
        let Ok(cluster) = ClusterFile::read(cluster.folder()) else { continue };
        let Some((target, _)) = folder(&cluster) else { continue };
        let may_open =
            !is_damaged || fingerprint(&data) != found || time::Instant::now() >= try_again;
        if may_open && target.refusal().is_none() {
            return;
        }
    }
}

/// The paths, lengths, modes and times of a store's files. They show whether a file was changed.
fn fingerprint(folder: &Path) -> Vec<(PathBuf, u64, u32, i64, i64)> {
    let folders = ["", "tree", "tree/tables", "journal"].map(|below| folder.join(below));
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            let file = entry.metadata().ok()?;
            Some((entry.path(), file.len(), file.mode(), file.ctime(), file.ctime_nsec()))
        })
        .collect();
    found.sort();
    found
}
