//! `Node`: one process of a cluster. It is made of its roles, such as storage and metadata.
//!
//! At its start, a node opens the data of its roles. It then makes a client of the cluster
//! ([`Cluster`]) that uses this node's targets directly, and the roles join the cluster through it.
//! At last the node listens, and a background task registers it. The node serves before it has
//! registered, because the registry may be stored on this very node.
//!
//! At its end, the roles withdraw, and the node leaves the registry. The node then answers the
//! requests in flight and closes the roles.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::call_rules::CALL_RULES;
use crate::classes::{ClassService, Served};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use nacre::{Cluster, ClusterFile, Keys, NodeEntry, Sessions};
use nacre_clock::{Clock, Random, SystemClock};
use nacre_object::{Error, NodeName, Result};
use nacre_registry::{LiveEntities, RefusalReporter};
use nacre_slo::follow_link;
use nacre_telemetry::Spans;
use nacre_wire::{Endpoint, Identity, LinkShaper, Listener, Server};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::guard::{Admissions, NodeGuard};
use crate::membership::Membership;
use crate::metrics::{Metrics, MetricsEndpoint, MetricsListener};
use crate::node_lock::NodeLock;
use crate::node_log::NodeLog;
use crate::node_service::{NODE_SERVICE, NodeService};
use crate::refusals::ToldRefusals;
use crate::roles::{JoinContext, Offer, OfferedService, OpenContext, RunningRole, open_roles};

/// A running node.
#[derive(Debug)]
pub struct Node {
    shutdown: oneshot::Sender<()>,
    serving: JoinHandle<Result<()>>,
    roles: Vec<Arc<dyn RunningRole>>,
    classes: ClassService,
    membership: Membership,
    _link: LinkFollower,
    metrics_address: SocketAddr,
    _metrics: MetricsEndpoint,
    /// Until all else is gone.
    _lock: NodeLock,
}

/// Tells the node's link how tenants share it, until this value is dropped.
#[derive(Debug)]
struct LinkFollower(JoinHandle<()>);

impl Drop for LinkFollower {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Options of a node that are not in the cluster's file.
#[derive(Debug, Clone, Copy, Default)]
pub struct NodeOptions {
    /// The loopback port of its metrics; 0 means any free port.
    pub metrics_port: u16,
}

impl Node {
    /// Starts a node of a cluster; the caller holds the node's lock. The node serves when this
    /// returns.
    ///
    /// # Errors
    /// `NotFound` if the cluster has no such node. `Unavailable` if its folder or socket is in use.
    /// `Exists` if the port for its metrics is in use. `Corrupt` if its data is damaged.
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
        let context = OpenContext { file: cluster, entry, classes: &classes, clock: &clock };
        let opened = open_roles(context).await?;
        let own: Vec<_> = opened.iter().filter_map(|role| role.target()).collect();
        let identity = identity_of(cluster, entry)?;
        let sessions = sessions_as(identity.as_ref(), cluster)?;
        let whole = Cluster::assemble(sessions.parts(&own, Arc::clone(&clock))?)?;

        let record = record_of(cluster, entry, &node, clock.now_micros())?;
        let entities = Arc::new(LiveEntities::follow(whole.maps(), node.clone(), CALL_RULES));
        let metrics_listener = MetricsListener::bind(options.metrics_port).await?;
        let metrics_address = metrics_listener.address();
        let mut metrics = Metrics::of_process(record.started_at_micros);
        metrics.programs(classes.clone());
        let joining =
            JoinContext { cluster: &whole, record: &record, classes: &classes, clock: &clock };
        let mut offer = Offer::new(&mut metrics);
        let mut roles = vec![];
        for role in opened {
            roles.push(role.join(&joining, &mut offer).await?);
        }
        let served = Served {
            targets: std::mem::take(&mut offer.delivers),
            is_alone: offer.is_alone,
            entities: Arc::clone(&entities),
        };
        let (stack, services) = offer.into_services();
        let admissions: Admissions = services
            .iter()
            .filter_map(|offered| Some((offered.name, offered.admission?)))
            .collect();
        let spans = Spans::new(Arc::clone(&clock), Random::from_system());
        let service = NodeService {
            record: record.clone(),
            roles: roles.clone(),
            classes: classes.clone(),
            file: cluster.clone(),
            cluster: whole.clone(),
            entities: Arc::clone(&entities),
            spans: Arc::clone(&spans),
            metrics: metrics_address,
        };
        let link = Arc::new(LinkShaper::new(Arc::clone(&clock)));
        let following = follow_link(whole.maps().clone(), node.clone(), Arc::clone(&link));
        let refusals = RefusalReporter::start(whole.events().clone(), node.clone());
        let mut server = Server::builder(node.clone(), record.incarnation)
            .spans(spans)
            .refusal_observer(Arc::new(ToldRefusals(refusals)))
            .guard(Arc::new(NodeGuard::new(cluster.clone(), entities, admissions)))
            .link(link)
            .service(NODE_SERVICE, Arc::new(service));
        if let Some(stack) = stack {
            server = server.store(stack.as_store()).watch(stack.as_watch());
        }
        for OfferedService { name, service, .. } in services {
            server = server.service(name, service);
        }
        // Before the first request: a node that follows no programs cannot know that it is behind.
        classes.follow(node, record.incarnation, &whole, served);
        let server = server.build();
        metrics.server(server.clone());
        let listener = listener(cluster, entry, identity.as_ref()).await?;
        let (shutdown, serving) = serve(server, listener);
        let membership = Membership::join(whole, record, NodeLog::new(name, clock));
        Ok(Self {
            shutdown,
            serving,
            roles,
            classes,
            membership,
            _link: LinkFollower(following),
            metrics_address,
            _metrics: metrics_listener.serve(metrics),
            _lock: lock,
        })
    }

    /// Where its metrics are.
    pub fn metrics_address(&self) -> SocketAddr {
        self.metrics_address
    }

    /// Why one of the node's roles refuses to serve; `None` if all roles serve.
    pub fn refusal(&self) -> Option<&Error> {
        self.roles.iter().find_map(|role| role.refusal())
    }

    /// Returns once the reason why a role refuses to serve may be gone, so that a restart of the
    /// node may help. Never returns if no role refuses to serve.
    pub async fn until_mended(&self) {
        let mended: FuturesUnordered<_> =
            self.roles.iter().map(|role| role.until_mended()).collect();
        match mended.into_future().await {
            (Some(()), _) => {}
            (None, _) => std::future::pending().await,
        }
    }

    /// Leaves the cluster and ends. All acknowledged writes stay stored.
    ///
    /// # Errors
    /// An error of the server. It never affects acknowledged writes.
    pub async fn stop(self) -> Result<()> {
        self.roles.iter().for_each(|role| role.withdraw());
        self.membership.leave().await;
        self.classes.stop();
        drop(self.shutdown);
        let served = self.serving.await;
        for role in self.roles.iter().rev() {
            role.close().await;
        }
        served.unwrap_or_else(|error| {
            Err(Error::unavailable(format!("the task of the node's server ended: {error}")))
        })
    }
}

/// The certificate with which the node answers mutual TLS, if the cluster uses it.
fn identity_of(cluster: &ClusterFile, entry: &NodeEntry) -> Result<Option<Identity>> {
    match cluster.address(entry)? {
        Some(_) => Keys::of(cluster).node(&entry.name).map(Some),
        None => Ok(None),
    }
}

/// Sessions with the cluster's nodes, with this identity if there is one.
fn sessions_as(identity: Option<&Identity>, cluster: &ClusterFile) -> Result<Sessions> {
    let file = cluster.clone();
    Sessions::new(&match identity {
        Some(identity) => file.with_identity(identity.clone()),
        None => file,
    })
}

/// The listener of a node: its socket, and its address if the cluster has keys.
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
            // Sent or dropped: in both cases the node stops.
            let _ = stopped.await;
        };
        server.serve(listener, stopped).await
    });
    (shutdown, serving)
}

/// The address by which processes on this machine find a node, from any working directory.
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
        // The incarnation identifies this start of the node, and must be greater than at the start
        // before. If the clock was set back, the registry refuses the incarnation, and the node
        // reports the refusal as an error of its membership.
        incarnation: now_micros,
        started_at_micros: now_micros,
        up: true,
    })
}
