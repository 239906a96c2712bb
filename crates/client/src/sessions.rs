//! The sessions of a process with a cluster's nodes: one each, connected when first needed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nacre_clock::Clock;
use nacre_log::{SEQUENCER_SERVICE, SequencerNodes, SequencerTransport};
use nacre_object::{Error, NodeName, Result, Store, Watch};
use nacre_placement::{PlacedTarget, Target};
use nacre_wire::{RemoteStore, Session, SessionOptions};

use crate::cluster::Parts;
use crate::cluster_file::{ClusterFile, Role};

/// How long a question to a sequencer may take; its asker sets a shorter deadline of its own, and
/// a `tail` that waits for news a longer one.
const SEQUENCER_DEADLINE: Duration = Duration::from_secs(30);

/// A session with every node of a cluster. Cheap to clone.
#[derive(Clone)]
pub struct Sessions(Arc<Inner>);

struct Inner {
    file: ClusterFile,
    sessions: BTreeMap<NodeName, Session>,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.sessions.keys()).finish()
    }
}

impl Sessions {
    /// Sessions with the nodes of a cluster's file. Needs a tokio runtime.
    ///
    /// # Errors
    /// `Invalid` if the file names a node or a socket wrongly.
    pub fn new(file: &ClusterFile) -> Result<Self> {
        let open = |node: &crate::NodeEntry| {
            let name = NodeName::new(&node.name)?;
            let options = SessionOptions {
                identity: file.identity().cloned(),
                node: Some(name.clone()),
                ..SessionOptions::default()
            };
            Ok((name, Session::open(file.endpoint(node)?, options)))
        };
        let sessions = file.nodes().iter().map(open).collect::<Result<_>>()?;
        Ok(Self(Arc::new(Inner { file: file.clone(), sessions })))
    }

    /// The session with a node.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn session(&self, node: &str) -> Result<&Session> {
        let found = self.0.sessions.iter().find(|(name, _)| name.as_str() == node);
        found.map(|(_, session)| session).ok_or_else(|| Error::not_found(format!("no node {node}")))
    }

    /// What a cluster is made of, with `own` targets in this process instead of over a session.
    ///
    /// # Errors
    /// As [`Sessions::new`].
    pub fn parts(&self, own: &[PlacedTarget], clock: Arc<dyn Clock>) -> Result<Parts> {
        let mut targets = Vec::new();
        for node in self.0.file.with_role(Role::Storage) {
            let target = Target { name: node.target()?, weight: node.weight };
            let here = own.iter().find(|own| own.target.name == target.name);
            targets.push(match here {
                Some(own) => {
                    let (store, watch) = (Arc::clone(&own.store), Arc::clone(&own.watch));
                    PlacedTarget { target, store, watch }
                }
                None => {
                    let remote = Arc::new(RemoteStore::new(self.session(&node.name)?.clone()));
                    let store: Arc<dyn Store> = remote.clone();
                    let watch: Arc<dyn Watch> = remote;
                    PlacedTarget { target, store, watch }
                }
            });
        }
        let sequencers = Arc::new(self.clone());
        Ok(Parts { targets, sequencers: sequencers.clone(), sequencer_nodes: sequencers, clock })
    }
}

#[async_trait]
impl SequencerTransport for Sessions {
    async fn ask(&self, node: &NodeName, method: &'static str, input: Bytes) -> Result<Bytes> {
        let session = self.session(node.as_str())?;
        session.ask(SEQUENCER_SERVICE, method, input, SEQUENCER_DEADLINE).await
    }
}

#[async_trait]
impl SequencerNodes for Sessions {
    async fn nodes(&self) -> Result<Vec<NodeName>> {
        self.0.file.with_role(Role::Metadata).map(|node| NodeName::new(&node.name)).collect()
    }
}
