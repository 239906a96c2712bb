//! The interface of the services that a node offers in addition to its store.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use nacre_object::{EntityName, Result, Standing, TenantName};

/// The caller of a method. The server itself determines everything but `client_name`, which the
/// client chose.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The caller's entity, as authenticated, and its rights.
    pub standing: Arc<dyn Standing>,
    /// The number of the session, from 1, or 0 for a call without a session.
    pub session: u64,
    /// The name that the client gave itself, for logs; empty without a session.
    pub client_name: String,
}

impl Caller {
    /// The caller's entity.
    pub fn entity(&self) -> &EntityName {
        self.standing.entity()
    }

    /// Whose latency promise its requests count against now.
    pub fn tenant(&self) -> TenantName {
        self.standing.tenant()
    }
}

/// A service of a node, such as a log's sequencer, the state of programs, or administration.
///
/// A call runs on the session's task, beside other requests of its session. A call that computes
/// for long must do so on its own thread (`tokio::task::spawn_blocking`). A call that has begun
/// runs to its end even if the client goes away, unless it [only waits](Service::only_waits).
#[async_trait]
pub trait Service: Send + Sync {
    /// Runs a method.
    ///
    /// # Errors
    /// `Unsupported` if the service does not have the method; any error of the method.
    async fn ask(&self, caller: &Caller, method: &str, input: Bytes) -> Result<Bytes>;

    /// Whether a method is a long poll: it changes nothing and may wait for long. A call of such a
    /// method is dropped when its client goes away or the node stops.
    fn only_waits(&self, _method: &str) -> bool {
        false
    }
}
