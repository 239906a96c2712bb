//! The transport to the sequencers in this process.

use std::sync::OnceLock;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nacre_host::{HostNodes, HostTransport, answer_within};
use nacre_log::{SEQUENCER_SERVICE, SequencerCaller, SequencerHost};
use nacre_object::{Error, NodeName, Result};

/// The sequencer host of this process.
#[derive(Debug)]
pub(super) struct LocalSequencer {
    pub node: NodeName,
    /// Set once the cluster is assembled.
    pub host: OnceLock<SequencerHost>,
}

#[async_trait]
impl HostTransport for LocalSequencer {
    async fn ask(
        &self,
        node: &NodeName,
        service: &'static str,
        method: &'static str,
        input: Bytes,
        patience: Duration,
    ) -> Result<Bytes> {
        let host = self.host.get().filter(|_| *node == self.node && service == SEQUENCER_SERVICE);
        let host = host.ok_or_else(|| {
            Error::unavailable(format!("this process has no node {node} that hosts {service}s"))
        })?;
        answer_within(patience, node, host.handle(SequencerCaller::local(), method, input)).await
    }
}

#[async_trait]
impl HostNodes for LocalSequencer {
    async fn nodes(&self) -> Result<Vec<NodeName>> {
        Ok(vec![self.node.clone()])
    }
}
