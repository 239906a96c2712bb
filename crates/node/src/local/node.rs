//! The only node of a cluster in one process: an engine, its classes and a sequencer host.
//!
//! If the data is in a folder, this process is the whole cluster. On Ceph, any number of processes
//! can be such a node, all with the same name. They share only the stored data. Each process may
//! start its own sequencer for a log. The log accepts the positions of one sequencer at a time,
//! because a new sequencer seals the epoch of the old one. A process whose sequencer is refused
//! starts a new one.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nacre::{Cluster, LogUse, Parts};
use nacre_class::CallsSeen;
use nacre_clock::Clock;
use nacre_embedded::{EmbeddedEngine, Options};
use nacre_log::SequencerHost;
use nacre_object::{Locate, NodeName, Result, Stack, TargetName};
use nacre_placement::{PlacedTarget, Target};
use nacre_rados::{RadosEngine, RadosOptions};
use nacre_registry::{LiveEntities, Node};
use nacre_slo::{NodeSlo, OneTarget, follow};
use tokio::task::JoinHandle;

use super::sequencer::LocalSequencer;
use crate::call_rules::CALL_RULES;
use crate::classes::{ClassService, Served};
use crate::io_path::own_path;

/// The name of the one node, and of its target.
const LOCAL: &str = "local";
/// The name of the node and its target if the target is a Ceph cluster.
const CEPH: &str = "ceph";

/// How long a node that ends tries to report this.
const LEAVE_TIMEOUT: Duration = Duration::from_millis(500);

/// What runs in this process for an embedded cluster.
pub(super) struct LocalNode {
    pub(super) name: NodeName,
    engine: Engine,
    classes: ClassService,
    sequencer: Arc<LocalSequencer>,
    /// Keeps the promises of tail latencies.
    slo: Arc<NodeSlo>,
    /// The task that follows the map of these promises, once the node serves.
    following: OnceLock<JoinHandle<()>>,
    /// The incarnation under which the node is registered, once it is.
    incarnation: OnceLock<u64>,
}

/// What keeps the objects, to be closed in the end.
enum Engine {
    /// This process alone, in a folder.
    Folder(EmbeddedEngine),
    /// A Ceph cluster.
    Ceph(RadosEngine),
}

impl LocalNode {
    /// Opens the engine in a folder.
    pub(super) fn open(folder: &Path, clock: Arc<dyn Clock>) -> Result<(Self, Parts)> {
        let classes = ClassService::new(Arc::clone(&clock))?;
        let options = Options::new(folder, classes.host(), Arc::clone(&clock));
        let engine = EmbeddedEngine::open(options)?;
        let kept = Engine::Folder(engine.clone());
        Self::over(LOCAL, Stack::new(engine), kept, classes, LogUse::of_disks(), clock)
    }

    /// Connects the engine with a Ceph cluster.
    pub(super) async fn connect(
        options: RadosOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<(Self, Parts)> {
        let classes = ClassService::new(Arc::clone(&clock))?;
        let engine = RadosEngine::connect(options, classes.host(), Arc::clone(&clock)).await?;
        let kept = Engine::Ceph(engine.clone());
        Self::over(CEPH, Stack::new(engine), kept, classes, LogUse::of_ceph(1), clock)
    }

    fn over(
        name: &str,
        engine: Stack,
        kept: Engine,
        classes: ClassService,
        logs: LogUse,
        clock: Arc<dyn Clock>,
    ) -> Result<(Self, Parts)> {
        let node = NodeName::new(name)?;
        let sequencer = Arc::new(LocalSequencer { node: node.clone(), host: OnceLock::new() });
        let target = Target::new(TargetName::new(name)?);
        let slo = NodeSlo::new(OneTarget(target.name.clone()), Arc::clone(&clock));
        let parts = Parts {
            targets: vec![PlacedTarget { target, stack: own_path(engine, &classes, &slo, None) }],
            sequencers: sequencer.clone(),
            sequencer_nodes: sequencer.clone(),
            logs,
            clock,
        };
        let (following, incarnation) = (OnceLock::new(), OnceLock::new());
        let engine = kept;
        Ok((Self { name: node, engine, classes, sequencer, slo, following, incarnation }, parts))
    }

    /// Starts everything that needs the assembled cluster.
    pub(super) async fn serve(&self, cluster: &Cluster, clock: Arc<dyn Clock>) -> Result<()> {
        let host = SequencerHost::new(self.name.clone(), self.classes.sequencer_env(cluster));
        // These cells are still empty: this function is called once, right after `open`.
        let _ = self.sequencer.host.set(host);
        let _ = self.following.set(follow(cluster.maps().clone(), Arc::clone(&self.slo)));
        let started = clock.now_micros();
        let node = Node {
            name: self.name.clone(),
            roles: vec!["storage".into(), "metadata".into()],
            address: "in process".into(),
            incarnation: started,
            started_at_micros: started,
            up: true,
        };
        let _ = self.incarnation.set(started);
        cluster.nodes().register(&node).await?;
        let served = Served {
            targets: cluster.store().targets(),
            is_alone: matches!(self.engine, Engine::Folder(..)),
            entities: Arc::new(LiveEntities::follow(cluster.maps(), self.name.clone(), CALL_RULES)),
        };
        self.classes.follow(self.name.clone(), started, cluster, served);
        Ok(())
    }
}

impl LocalNode {
    /// Counts of the calls of this node's classes in Brados, by class name.
    pub(super) fn calls_seen(&self) -> BTreeMap<String, CallsSeen> {
        let seen = self.classes.calls_seen().into_iter();
        seen.map(|(class, seen)| (class.to_string(), seen)).collect()
    }

    /// Reports that the node is down. On a folder no other process could wait for it.
    pub(super) async fn leave(&self, cluster: &Cluster) {
        if let (Engine::Ceph(_), Some(incarnation)) = (&self.engine, self.incarnation.get()) {
            let leaving = cluster.nodes().mark_down(&self.name, *incarnation);
            // If the report fails, the node looks like one that crashed.
            let _ = tokio::time::timeout(LEAVE_TIMEOUT, leaving).await;
        }
    }

    /// The measured latencies of the target.
    pub(super) fn slo(&self) -> &NodeSlo {
        &self.slo
    }

    fn stop(&self) {
        self.classes.stop();
        if let Some(following) = self.following.get() {
            following.abort();
        }
    }

    /// Closes the engine.
    pub(super) async fn close(&self) {
        self.stop();
        match &self.engine {
            Engine::Folder(engine) => engine.close(),
            Engine::Ceph(engine) => engine.close().await,
        }
    }
}

impl Drop for LocalNode {
    fn drop(&mut self) {
        self.stop();
        if let Engine::Folder(engine) = &self.engine {
            engine.close();
        }
    }
}
