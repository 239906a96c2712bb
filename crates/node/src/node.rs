//! `Node`: one process of a cluster, put together from its roles.
//!
//! Start: open the engine (storage), or connect with the system that keeps the data, listen, then join the
//! cluster in the background: register, follow the programs. A node serves before it has joined, because
//! what it joins may be kept on this very node. Stop: leave the registry, finish what is under way, close the engine.

use std::net::SocketAddr;
use std::sync::Arc;

use nacre::{
    ClassService, Cluster, ClusterFile, Keys, LayoutKeeper, NodeEntry, Role, Served, Sessions,
};
use nacre_clock::{Clock, Random, SystemClock};
use nacre_embedded::EmbeddedEngine;
use nacre_log::{SEQUENCER_SERVICE, SequencerHost};
use nacre_object::{Error, Locate, NodeName, Result};
use nacre_registry::{LiveEntities, ProgramUpkeep, RefusalReporter};
use nacre_telemetry::Spans;
use nacre_wire::{Endpoint, Identity, Listener, Server};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::ceph_gateway::CephGateway;
use crate::guard::NodeGuard;
use crate::membership::Membership;
use crate::metrics::{Metrics, MetricsEndpoint, MetricsListener};
use crate::node_lock::NodeLock;
use crate::node_log::NodeLog;
use crate::node_service::{NODE_SERVICE, NodeService};
use crate::refusals::ToldRefusals;
use crate::refused_target;
use crate::room_watch::RoomWatch;
use crate::sequencer_service::SequencerService;
use crate::storage::Storage;

/// A running node.
#[derive(Debug)]
pub struct Node {
    shutdown: oneshot::Sender<()>,
    serving: JoinHandle<Result<()>>,
    engine: Option<EmbeddedEngine>,
    /// Why its target does not serve, if it does not.
    refusal: Option<Error>,
    file: ClusterFile,
    gateway: Option<Arc<CephGateway>>,
    classes: ClassService,
    membership: Membership,
    layouts: Option<LayoutKeeper>,
    _programs: Option<ProgramUpkeep>,
    _room: Option<RoomWatch>,
    metrics_address: SocketAddr,
    _metrics: MetricsEndpoint,
    /// Until all else is gone.
    lock: NodeLock,
}

/// How a node is to run, besides what its cluster's file says.
#[derive(Debug, Clone, Copy, Default)]
pub struct NodeOptions {
    /// The loopback port its metrics are on; 0 for any that is free.
    pub metrics_port: u16,
}

impl Node {
    /// Starts the node of a cluster that is locked; it serves when this returns.
    ///
    /// # Errors
    /// `NotFound` if the cluster has no such node; `Unavailable` if its folder or socket is in use;
    /// `Exists` if the port for its metrics is; `Corrupt` if its data is damaged.
    pub async fn start(
        cluster: &ClusterFile,
        lock: NodeLock,
        options: NodeOptions,
    ) -> Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let name = lock.name();
        let entry = cluster.node(name)?;
        let node = entry.node_name()?;
        let classes = ClassService::new(Arc::clone(&clock))?;
        let storage = match entry.has(Role::Storage) {
            true => Some(Storage::open(cluster, entry, &classes, &clock).await?),
            false => None,
        };
        let own: Vec<_> = storage.iter().map(Storage::placed).collect();
        let identity = identity_of(cluster, entry)?;
        let sessions = sessions_as(identity.as_ref(), cluster)?;
        let whole = Cluster::assemble(sessions.parts(&own, Arc::clone(&clock))?)?;

        let record = record_of(cluster, entry, &node, clock.now_micros())?;
        let engine = storage.as_ref().and_then(|storage| storage.embedded.clone());
        let refusal = storage.as_ref().and_then(|storage| storage.refusal.clone());
        let entities = Arc::new(LiveEntities::follow(whole.maps(), node.clone()));
        let metrics_listener = MetricsListener::bind(options.metrics_port).await?;
        let metrics_address = metrics_listener.address();
        let mut metrics = Metrics::of_process(record.started_at_micros);
        metrics.programs(classes.clone());
        let spans = Spans::new(Arc::clone(&clock), Random::from_system());
        let gateway =
            storage.as_ref().and_then(|storage| CephGateway::of(storage, &whole, &node, &clock));
        let service = NodeService {
            record: record.clone(),
            engine: engine.clone(),
            refusal: refusal.clone(),
            gateway: gateway.clone(),
            classes: classes.clone(),
            file: cluster.clone(),
            cluster: whole.clone(),
            entities: Arc::clone(&entities),
            spans: Arc::clone(&spans),
            metrics: metrics_address,
        };
        let refusals = RefusalReporter::start(whole.events().clone(), node.clone());
        let mut server = Server::builder(node.clone(), record.incarnation)
            .spans(spans)
            .refusal_observer(Arc::new(ToldRefusals(refusals)))
            .guard(Arc::new(NodeGuard::new(cluster.clone(), Arc::clone(&entities))))
            .service(NODE_SERVICE, Arc::new(service));
        if let Some(storage) = &storage {
            measure(&mut metrics, engine.as_ref(), gateway.as_ref());
            metrics.channels(classes.clone());
            let served = storage.served(whole.store().placement());
            server = server.store(served.as_store()).watch(served.as_watch());
        }
        if entry.has(Role::Metadata) {
            let host = SequencerHost::new(node.clone(), whole.log_env().clone());
            metrics.sequencers(host.clone());
            server = server.service(SEQUENCER_SERVICE, Arc::new(SequencerService::new(host)));
        }
        let keeps_objects = storage.as_ref().is_some_and(|storage| storage.refusal.is_none());
        let layouts = keeps_objects.then(|| keep_layouts(&whole, &record, &clock));
        let _programs = entry
            .has(Role::Metadata)
            .then(|| ProgramUpkeep::start(whole.programs().clone(), node.clone()));
        let _room = engine.clone().map(|engine| {
            RoomWatch::start(engine, whole.clone(), node.clone(), Arc::clone(&clock))
        });
        // Before the first request: a node that follows nothing cannot know that it is behind.
        let served = served(storage.as_ref(), &whole, Arc::clone(&entities));
        classes.follow(node, record.incarnation, &whole, served);
        let server = server.build();
        metrics.server(server.clone());
        let listener = listener(cluster, entry, identity.as_ref()).await?;
        let (shutdown, serving) = serve(server, listener);
        refused_target::tell(&whole, &record.name, refusal.as_ref());
        if let Some(engine) = &engine {
            refused_target::tell_mended(&whole, &record.name, engine.mended());
        }
        let membership = Membership::join(whole, record, NodeLog::new(name, clock));
        let _metrics = metrics_listener.serve(metrics);
        Ok(Self {
            shutdown,
            serving,
            engine,
            refusal,
            file: cluster.clone(),
            gateway,
            classes,
            membership,
            layouts,
            _programs,
            _room,
            metrics_address,
            _metrics,
            lock,
        })
    }

    /// Where its metrics are.
    pub fn metrics_address(&self) -> SocketAddr {
        self.metrics_address
    }

    /// Why its target does not serve, if it does not.
    pub fn refusal(&self) -> Option<&Error> {
        self.refusal.as_ref()
    }

    /// Returns once the folder of a target that does not serve is in order: started again, the node
    /// serves. Of a node that serves it never returns.
    pub async fn until_folder_in_order(&self) {
        match self.refusal {
            Some(_) => refused_target::until_in_order(&self.file, self.lock.name()).await,
            None => std::future::pending().await,
        }
    }

    /// Leaves the cluster and ends; what was acknowledged stays.
    ///
    /// # Errors
    /// None that matters to what was acknowledged.
    pub async fn stop(self) -> Result<()> {
        drop(self.layouts);
        self.membership.leave().await;
        self.classes.stop();
        drop(self.shutdown);
        let served = self.serving.await;
        if let Some(engine) = self.engine {
            engine.close();
        }
        if let Some(gateway) = self.gateway {
            gateway.engine.close().await;
        }
        served.unwrap_or_else(|error| Err(Error::unavailable(format!("the server: {error}"))))
    }
}

/// What a node shows where it is reached by mutual TLS, if it is.
fn identity_of(cluster: &ClusterFile, entry: &NodeEntry) -> Result<Option<Identity>> {
    match cluster.address(entry)? {
        Some(_) => Keys::of(cluster).node(&entry.name).map(Some),
        None => Ok(None),
    }
}

/// Sessions with the cluster's nodes, as the one of this identity if there is one.
fn sessions_as(identity: Option<&Identity>, cluster: &ClusterFile) -> Result<Sessions> {
    let file = cluster.clone();
    Sessions::new(&match identity {
        Some(identity) => file.with_identity(identity.clone()),
        None => file,
    })
}

/// Where a node is reached: its socket, and its address if the cluster has keys.
async fn listener(
    cluster: &ClusterFile,
    entry: &NodeEntry,
    identity: Option<&Identity>,
) -> Result<Listener> {
    let mut listener = Listener::default();
    if let Some(socket) = cluster.socket(entry)? {
        listener = listener.and(&socket).await?;
    }
    if let (Some(address), Some(identity)) = (cluster.address(entry)?, identity) {
        listener = listener.and_tls(&address, identity).await?;
    }
    Ok(listener)
}

/// Serves until the sender is dropped.
fn serve(server: Server, listener: Listener) -> (oneshot::Sender<()>, JoinHandle<Result<()>>) {
    let (shutdown, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(async move {
        let stopped = async {
            // Sent or dropped: either way the node is done.
            let _ = stopped.await;
        };
        server.serve(listener, stopped).await
    });
    (shutdown, serving)
}

/// Has the metrics tell of what keeps a node's objects.
fn measure(
    metrics: &mut Metrics,
    engine: Option<&EmbeddedEngine>,
    gateway: Option<&Arc<CephGateway>>,
) {
    if let Some(engine) = engine {
        metrics.engine(engine.clone());
    }
    if let Some(gateway) = gateway {
        metrics.rados(Arc::clone(gateway));
    }
}

/// Starts the node's part in bringing classes into other layouts.
fn keep_layouts(whole: &Cluster, record: &nacre::Node, clock: &Arc<dyn Clock>) -> LayoutKeeper {
    let (node, clock) = (record.name.clone(), Arc::clone(clock));
    LayoutKeeper::start(whole.layouts(), node, record.incarnation, clock)
}

/// The objects whose messages a node delivers: its own, or all, where another system keeps them.
fn served(storage: Option<&Storage>, whole: &Cluster, entities: Arc<LiveEntities>) -> Served {
    let targets = match storage {
        Some(storage) if storage.rados.is_some() => whole.store().targets(),
        Some(storage) if storage.refusal.is_none() => vec![storage.placed().target.name],
        _ => vec![],
    };
    let is_alone = storage.is_some_and(|storage| storage.embedded.is_some());
    Served { targets, is_alone, entities }
}

/// Where whoever is on this machine finds a node, wherever they were started.
fn found_at(cluster: &ClusterFile, entry: &NodeEntry) -> Result<Endpoint> {
    let endpoint = cluster.endpoint(entry)?;
    let absolute = endpoint.path().and_then(|path| std::path::absolute(path).ok());
    Ok(absolute.and_then(|path| Endpoint::unix(path).ok()).unwrap_or(endpoint))
}

fn record_of(
    cluster: &ClusterFile,
    entry: &NodeEntry,
    name: &NodeName,
    now_micros: u64,
) -> Result<nacre::Node> {
    Ok(nacre::Node {
        name: name.clone(),
        roles: entry.roles.iter().map(|role| role.as_str().to_owned()).collect(),
        address: found_at(cluster, entry)?.to_string(),
        // A clock that was set back makes the node wait for nothing worse than a refused
        // registration, which the membership reports.
        incarnation: now_micros,
        started_at_micros: now_micros,
        up: true,
    })
}
