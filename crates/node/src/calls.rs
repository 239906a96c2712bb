//! Counts of the calls of classes in Brados. Each node reports its counts (the method `calls` of
//! the service `node`), and this module gathers the reports of all nodes.

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

/// A node that says nothing for so long is left out: it counts on meanwhile.
const NODE_TIMEOUT: Duration = Duration::from_secs(2);

/// What the classes were asked on one node, by name.
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

/// Asks every node of a cluster; those that do not answer are told of as such.
pub async fn gather_calls(
    sessions: &Sessions,
    file: &ClusterFile,
) -> Vec<(String, Result<NodeCalls>)> {
    let ask = async |node: &str| -> Result<NodeCalls> {
        let session = sessions.session(node)?;
        let answer = session.ask(NODE_SERVICE, "calls", Bytes::new(), NODE_TIMEOUT).await?;
        serde_json::from_slice(&answer)
            .map_err(|error| Error::corrupt(format!("what {node} counted: {error}")))
    };
    let asked = file.nodes().iter().map(|node| {
        let ask = &ask;
        async move { (node.name.clone(), ask(&node.name).await) }
    });
    join_all(asked).await
}
