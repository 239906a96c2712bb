//! The limit of the wire: a question and its answer on a node's session, of the bytes that an operation
//! carries and gets, to a node that does nothing with them.

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use nacre::{Role, Sessions};
use nacre_node::NODE_SERVICE;
use nacre_object::{Error, Result};
use nacre_wire::Session;

use crate::load;
use crate::scratch::ScratchCluster;

/// What it is called as a baseline.
pub(crate) const NAME: &str = "bare exchange of the same bytes on the wire";
/// About what an operation carries or gets besides its payload: names, ids, version.
const ENVELOPE_BYTES: usize = 64;
/// An exchange that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(10);

/// A session with a cluster's storage node.
#[derive(Debug, Clone)]
pub(crate) struct Wire(Session);

impl Wire {
    /// # Errors
    /// `NotFound` if the cluster has no such node.
    pub fn to_storage(cluster: &ScratchCluster) -> Result<Self> {
        let file = cluster.supervisor.cluster();
        let node = file.with_role(Role::Storage).next();
        let node = node.ok_or_else(|| Error::not_found("the cluster has no storage node"))?;
        Ok(Self(Sessions::new(file)?.session(&node.name)?.clone()))
    }

    /// Sends a payload of so many bytes, and waits for an answer.
    ///
    /// # Errors
    /// `Unavailable` if none comes.
    pub async fn send(&self, payload: usize) -> Result<()> {
        self.exchange(payload, 0).await
    }

    /// Answers a second of so many bytes that waiting `workers` get.
    ///
    /// # Errors
    /// `Unavailable` if one does not come.
    pub async fn gets(&self, workers: usize, payload: usize, span: Duration) -> Result<f64> {
        let outcome = load::run(workers, span, |_| {
            let wire = self.clone();
            move |_| {
                let wire = wire.clone();
                async move { wire.exchange(0, payload).await }
            }
        });
        Ok(outcome.await?.rate)
    }

    async fn exchange(&self, sent: usize, got: usize) -> Result<()> {
        let mut question = BytesMut::with_capacity(ENVELOPE_BYTES + sent);
        question.put_u32_le((ENVELOPE_BYTES + got) as u32);
        question.put_bytes(7, ENVELOPE_BYTES + sent - question.len());
        let answer = self.0.ask(NODE_SERVICE, "exchange", question.freeze(), PATIENCE).await?;
        debug_assert_eq!(answer.len(), ENVELOPE_BYTES + got);
        Ok(())
    }
}
