//! A storage target: an engine, and the stage before it.

use std::sync::Arc;
use std::time::Duration;

use nacre::{ClassService, ClusterFile, NodeEntry};
use nacre_clock::Clock;
use nacre_embedded::{EmbeddedEngine, Options};
use nacre_object::{Result, Store, Watch};
use nacre_placement::{PlacedTarget, Target};
use nacre_rados::{RadosEngine, RadosOptions};
use nacre_registry::Herald;
use nacre_wire::limits::REQUEST_DEADLINE;

/// A gateway says that its Ceph cluster is silent before its clients give up waiting for it to say anything.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(28);

const _: () = assert!(OPERATION_TIMEOUT.as_secs() < REQUEST_DEADLINE.as_secs());

/// A node's share of the objects, or, where another system keeps them, its way there.
pub(crate) struct Storage {
    /// The engine that keeps objects in this process, if it does.
    pub embedded: Option<EmbeddedEngine>,
    /// The way to the Ceph cluster that keeps them, if one does.
    pub rados: Option<RadosEngine>,
    pub store: Arc<dyn Store>,
    pub watch: Arc<dyn Watch>,
    target: Target,
}

impl Storage {
    /// Opens what the cluster's file says.
    ///
    /// # Errors
    /// `Corrupt` if the node's data is damaged, `Unavailable` if it is in use or the system that
    /// keeps it does not answer; `Invalid` if the file names no engine there is.
    pub async fn open(
        cluster: &ClusterFile,
        entry: &NodeEntry,
        classes: &ClassService,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self> {
        let target = Target { name: entry.target()?, weight: entry.weight };
        let Some(engine) = cluster.engine() else {
            let options = Options::new(cluster.data(entry), classes.host(), Arc::clone(clock));
            let engine = EmbeddedEngine::open(options)?;
            let store = classes.before(engine.clone());
            let watch = heralded(&store, &engine);
            return Ok(Self { embedded: Some(engine), rados: None, store, watch, target });
        };
        let options = RadosOptions { operation_timeout: OPERATION_TIMEOUT, ..engine.parse()? };
        let engine = RadosEngine::connect(options, classes.host(), Arc::clone(clock)).await?;
        let store = classes.before(engine.clone());
        let watch = heralded(&store, &engine);
        Ok(Self { embedded: None, rados: Some(engine), store, watch, target })
    }

    /// It, as a cluster is assembled from.
    pub fn placed(&self) -> PlacedTarget {
        PlacedTarget {
            target: self.target.clone(),
            store: Arc::clone(&self.store),
            watch: Arc::clone(&self.watch),
        }
    }
}

/// The engine's watch, by which watchers of common maps are told what changed.
fn heralded(store: &Arc<dyn Store>, engine: &(impl Watch + Clone + 'static)) -> Arc<dyn Watch> {
    Arc::new(Herald::new(Arc::clone(store), Arc::new(engine.clone())))
}
