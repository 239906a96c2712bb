//! Counts of calls of Brados classes. Each node reports its own counts by the method `calls` of the
//! service `node`. This module gathers the reports of all nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::classes::ClassService;
use bytes::Bytes;
use futures::future::join_all;
use nacre::{ClusterFile, Sessions};
use nacre_class::CallsSeen;
use nacre_object::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::node_service::NODE_SERVICE;

/// How long to wait for a node's counts. The report leaves out a node that takes longer.
const NODE_TIMEOUT: Duration = Duration::from_secs(2);

/// The calls of classes on one node, by class name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeCalls {
    /// By class.
    pub classes: BTreeMap<String, CallsSeen>,
}

impl NodeCalls {
    pub(crate) fn of(classes: &ClassService) -> Self {
        let seen = classes.calls_seen().into_iter();
        Self { classes: seen.map(|(name, seen)| (name.to_string(), seen)).collect() }
    }
}

/// Asks every node of a cluster. A node that does not answer is listed as such.
pub async fn gather_calls(
    sessions: &Sessions,
    file: &ClusterFile,
) -> Vec<(String, Result<NodeCalls>)> {
    let ask = async |node: &str| -> Result<NodeCalls> {
        let session = sessions.session(node)?;
        let answer = session.ask(NODE_SERVICE, "calls", Bytes::new(), NODE_TIMEOUT).await?;
        serde_json::from_slice(&answer).map_err(|error| {
            Error::corrupt(format!("the counts of {node} are malformed: {error}"))
                .hint("run this release of nacre on all nodes")
        })
    };
    let asked = file.nodes().iter().map(|node| {
        let ask = &ask;
        async move { (node.name.clone(), ask(&node.name).await) }
    });
    join_all(asked).await
}
