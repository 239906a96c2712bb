//! The serving end: sessions, unary calls, health and reflection on a node's sockets.

mod call_limits;
mod connection;
mod grpc;
mod idle;
mod listener;
mod meter;
mod node;
mod received;
mod refusals;
mod service;
mod session;
mod session_link;
mod session_slots;
mod socket_authority;
mod stall;
mod tracing;
mod under_way;
mod watches;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use nacre_clock::Clock;
use nacre_object::{Error, Guard, NodeName, Result, Store, Watch};
use nacre_telemetry::Spans;
use tokio::task::JoinSet;
use tonic::service::Routes;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};

pub use listener::Listener;
pub use meter::{KindCounts, RequestCounts};
pub use refusals::{Refusal, RefusalObserver, RefusalReason};
pub use service::{Caller, Service};

use self::connection::Connections;
use self::grpc::GrpcService;
use self::meter::Meter;
use self::node::{Node, Phase};
use crate::limits::DRAIN_TIMEOUT;
use crate::{KeepAlive, LinkShaper};
use nacre_protocol::proto;

/// Serves a node. Clones are handles to the same server.
#[derive(Clone)]
pub struct Server {
    node: Arc<Node>,
    connections: Arc<Connections>,
    health: HealthReporter,
}

/// What a server is made of.
pub struct ServerBuilder {
    node: Node,
    keep_alive: KeepAlive,
}

impl Server {
    /// Starts to build the server of the node `name`. The `incarnation` must differ each time the
    /// node starts.
    pub fn builder(name: NodeName, incarnation: u64) -> ServerBuilder {
        ServerBuilder { node: Node::new(name, incarnation), keep_alive: KeepAlive::default() }
    }

    /// Sessions that are open.
    pub fn session_count(&self) -> usize {
        self.node.sessions.taken()
    }

    /// Connections that are open, with a session or without.
    pub fn connection_count(&self) -> usize {
        self.connections.count()
    }

    /// What it has answered, and how.
    pub fn requests(&self) -> RequestCounts {
        self.node.meter.read()
    }

    /// Connections and sessions that did not come to be, by reason.
    pub fn refusals(&self) -> [(RefusalReason, u64); RefusalReason::ALL.len()] {
        self.node.refusals.read()
    }

    /// Serves until `shutdown` completes, and then waits at most `DRAIN_TIMEOUT` for requests in
    /// flight. When it returns, all connections and sockets are closed. It can be called once.
    ///
    /// # Errors
    /// `Invalid` if there is no socket to listen on.
    pub async fn serve(
        &self,
        listener: Listener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<()> {
        if listener.sockets.is_empty() {
            return Err(Error::invalid("the server has no endpoint to listen on")
                .hint("give it at least one"));
        }
        self.health.set_serving::<GrpcService>().await;
        let mut accepting = JoinSet::new();
        for socket in listener.sockets {
            accepting.spawn(self.connections.clone().accept(socket));
        }
        shutdown.await;
        self.health.set_not_serving::<GrpcService>().await;
        accepting.shutdown().await;
        self.node.phase.send_replace(Phase::Draining);
        let drained = tokio::time::timeout(DRAIN_TIMEOUT, self.connections.all_closed()).await;
        if drained.is_err() {
            self.node.phase.send_replace(Phase::Cut);
            self.connections.all_closed().await;
        }
        Ok(())
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("node", &self.node).finish_non_exhaustive()
    }
}

impl ServerBuilder {
    /// Serves the objects of a store.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.node.store = Some(store);
        self
    }

    /// Lets clients watch objects, and notify those who do.
    pub fn watch(mut self, watch: Arc<dyn Watch>) -> Self {
        self.node.watch = Some(watch);
        self
    }

    /// Offers a service under a name.
    ///
    /// # Panics
    /// If there is a service of that name already, which is a programming error.
    pub fn service(mut self, name: impl Into<String>, service: Arc<dyn Service>) -> Self {
        let previous = self.node.services.insert(name.into(), service);
        assert!(previous.is_none(), "a service is defined twice");
        self
    }

    /// Sets the guard, which decides which peers are admitted and what each may do. By default the
    /// user who runs the node may do everything, and no other peer is admitted.
    pub fn guard(mut self, guard: Arc<dyn Guard>) -> Self {
        self.node.guard = guard;
        self
    }

    /// Tells of those who do not get in.
    pub fn refusal_observer(self, observer: Arc<dyn RefusalObserver>) -> Self {
        self.node.refusals.observe(observer);
        self
    }

    /// Shares this network link among tenants, while its speed is stated.
    pub fn link(mut self, link: Arc<LinkShaper>) -> Self {
        self.node.link = Some(link);
        self
    }

    /// How dead clients are found out.
    pub fn keep_alive(mut self, keep_alive: KeepAlive) -> Self {
        self.keep_alive = keep_alive;
        self
    }

    /// How long a client may read nothing while too many replies wait for it. The default is
    /// `STALL_TIMEOUT`.
    pub fn stall_timeout(mut self, timeout: Duration) -> Self {
        self.node.stall_timeout = timeout;
        self
    }

    /// Sets the clock by which requests are timed. The default is the system's clock.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.node.meter = Meter::new(clock);
        self
    }

    /// Sets where the server stores the spans of traced messages. By default only the server itself
    /// can read them.
    pub fn spans(mut self, spans: Arc<Spans>) -> Self {
        self.node.spans = spans;
        self
    }

    /// Sets how long a client may take to send the first request on a new connection, and the
    /// greeting (`Hello`) in a new session. The default is `HANDSHAKE_TIMEOUT`.
    pub fn handshake_timeout(mut self, timeout: Duration) -> Self {
        self.node.handshake_timeout = timeout;
        self
    }

    /// The server.
    pub fn build(self) -> Server {
        let node = Arc::new(self.node);
        let health = HealthReporter::new();
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .build_v1()
            .expect("the compiler's own descriptors are well formed");
        let routes = Routes::new(GrpcService(node.clone()))
            .add_service(HealthServer::new(HealthService::from_health_reporter(health.clone())))
            .add_service(reflection)
            .prepare();
        let connections = Connections::new(routes, self.keep_alive, &node);
        Server { node, connections: Arc::new(connections), health }
    }
}
