//! The transport of requests to the hosts of other nodes.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nacre_object::{Error, NodeName, Result};
use tokio::time::timeout;

/// Sends requests to the hosts of nodes.
#[async_trait]
pub trait HostTransport: Send + Sync + fmt::Debug {
    /// Calls `method` of the host that `node` offers as `service`, and returns the answer. Fails if
    /// the answer takes longer than `patience`.
    ///
    /// The timeout is a parameter, so that an implementation can watch all its requests with one
    /// timer. A timer for each request would cost more.
    ///
    /// # Errors
    /// The errors of the host; `Unavailable` if the node does not answer in time.
    async fn ask(
        &self,
        node: &NodeName,
        service: &'static str,
        method: &'static str,
        input: Bytes,
        patience: Duration,
    ) -> Result<Bytes>;
}

/// Knows which nodes host machines.
#[async_trait]
pub trait HostNodes: Send + Sync + fmt::Debug {
    /// Every node that can become an authority, whether it is alive or not.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn nodes(&self) -> Result<Vec<NodeName>>;
}

/// Waits for the answer of a node's host, for `patience` at most.
///
/// # Errors
/// The errors of the host; `Unavailable` if there is no answer in time.
pub async fn answer_within(
    patience: Duration,
    node: &NodeName,
    answer: impl Future<Output = Result<Bytes>>,
) -> Result<Bytes> {
    timeout(patience, answer).await.unwrap_or_else(|_| {
        Err(Error::unavailable(format!("node {node} has no answer within {patience:?}")))
    })
}
