//! A baseline for operations over the wire: an exchange with a node that carries as many bytes as
//! the operation but does no work. No operation over the wire can be faster.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use nacre::{RoleName, Sessions};
use nacre_node::NODE_SERVICE;
use nacre_object::{Error, Result};
use nacre_wire::Session;

use crate::load;
use crate::scratch::ScratchCluster;

/// The name of this baseline.
pub(crate) const NAME: &str = "bare exchange of the same bytes on the wire";
/// About how many bytes a request or an answer has besides its payload: names, ids, version.
const ENVELOPE_BYTES: usize = 64;
/// An exchange that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(10);

/// A separate session with a node of the cluster.
#[derive(Debug)]
pub(crate) struct Wire(Session);

impl Wire {
    /// Opens a session with the first node of this role.
    ///
    /// # Errors
    /// `NotFound` if the cluster has no such node.
    pub fn to(cluster: &ScratchCluster, role: RoleName) -> Result<Self> {
        let file = cluster.supervisor.cluster();
        let node = file.with_role(role).next();
        let node =
            node.ok_or_else(|| Error::not_found(format!("no node has the role {role:?}")))?;
        Ok(Self(Sessions::new(file)?.session(&node.name)?.clone()))
    }

    /// A request of `sent` bytes, at least 4, and an answer of `got` bytes.
    pub fn exchange(&self, sent: usize, got: usize) -> Exchange {
        let mut question = BytesMut::with_capacity(sent);
        question.put_u32_le(got as u32);
        question.put_bytes(7, sent - question.len());
        Exchange { session: self.0.clone(), question: question.freeze(), got }
    }

    /// The exchange of an operation that sends `payload` bytes.
    pub fn sending(&self, payload: usize) -> Exchange {
        self.exchange(ENVELOPE_BYTES + payload, ENVELOPE_BYTES)
    }

    /// The exchange of an operation that receives `payload` bytes.
    pub fn getting(&self, payload: usize) -> Exchange {
        self.exchange(ENVELOPE_BYTES, ENVELOPE_BYTES + payload)
    }
}

/// A request and the length of its answer.
#[derive(Debug, Clone)]
pub(crate) struct Exchange {
    session: Session,
    question: Bytes,
    got: usize,
}

impl Exchange {
    /// Asks once.
    ///
    /// # Errors `Unavailable` if no answer comes, `Corrupt` if the answer is a different one.
    pub async fn once(&self) -> Result<()> {
        let question = self.question.clone();
        let answer = self.session.ask(NODE_SERVICE, "exchange", question, PATIENCE).await?;
        if answer.len() != self.got {
            let text = format!("{} bytes for an answer of {}", answer.len(), self.got);
            return Err(Error::corrupt(text));
        }
        Ok(())
    }
}

/// Measures how many answers a second `workers` workers get in total. Each worker repeats one of
/// these exchanges, one at a time.
///
/// # Errors
/// As [`Exchange::once`].
pub(crate) async fn rate(exchanges: &[Exchange], workers: usize, span: Duration) -> Result<f64> {
    let outcome = load::run(workers, span, |worker| {
        let exchange = exchanges[worker % exchanges.len()].clone();
        move |_| {
            let exchange = exchange.clone();
            async move { exchange.once().await }
        }
    });
    Ok(outcome.await?.rate)
}
