//! How a session behaves.

use std::sync::Arc;
use std::time::Duration;

use nacre_clock::{Clock, SystemClock};
use nacre_object::{EntityName, NodeName};
use nacre_telemetry::Sampling;

use crate::{Identity, KeepAlive};

/// How a session behaves.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// The name that the client gives itself, for the node's logs.
    pub client_name: EntityName,
    /// The client's identity, for nodes that are reached by TLS.
    pub identity: Option<Identity>,
    /// The name of the wanted node. Over TLS, the client refuses a node with another name. `None`
    /// accepts every node with a certificate of the cluster's authority.
    pub node: Option<NodeName>,
    /// How long requests wait for a connection. The time starts when the connection is lost or when
    /// the session is opened. After that time, requests fail at once until there is a connection.
    pub patience: Duration,
    /// How a dead node is found out.
    pub keep_alive: KeepAlive,
    /// Which of the requests that belong to no trace start a new trace. `None`: no request does.
    pub sampling: Option<Sampling>,
    /// The clock for deadlines.
    pub clock: Arc<dyn Clock>,
}

impl Default for SessionOptions {
    /// A client without a particular name that waits five seconds, long enough for a node to
    /// restart.
    fn default() -> Self {
        Self {
            client_name: EntityName::new("client").expect("well formed"),
            identity: None,
            node: None,
            patience: Duration::from_secs(5),
            keep_alive: KeepAlive::default(),
            sampling: None,
            clock: Arc::new(SystemClock::default()),
        }
    }
}
