//! `nacre ceph forget`: removes a node that vanished without reporting that it is down.
//!
//! A node that ends reports that it is down. If it cannot be started again, its supervisor reports
//! it as down. If both vanish together, with their machine or folder, the cluster's maps list the
//! node as up for ever. Every activation of a program then waits for the node.

use std::time::Duration;

use nacre::{Cluster, ClusterFile, Node};
use nacre_object::{Error, NodeName, Result};
use nacre_wire::{Endpoint, Session, SessionOptions};
use serde_json::json;

use crate::out::Out;

/// How long to wait for a connection. A running node on this machine accepts one within this time.
const LIVES_WITHIN: Duration = Duration::from_secs(1);

/// The arguments of `nacre ceph forget`
#[derive(Debug, clap::Args)]
pub struct ForgetArguments {
    /// The node's name, as `nacre program status` shows it
    #[arg(value_name = "NODE")]
    node: String,
}

/// Marks a node as gone, so that no command waits for it any more.
///
/// # Errors
/// `NotFound` if the cluster does not know the node; the error lists the known ones. `Invalid` if
/// the node belongs to this folder, or is alive.
pub async fn run(arguments: ForgetArguments, file: &ClusterFile, out: Out) -> Result<()> {
    let name = NodeName::new(&arguments.node)?;
    if file.known(&name).is_some() {
        return Err(Error::invalid(format!("{name} is a node of this folder"))
            .hint("nothing to do: no command waits for a node of this folder that is down"));
    }
    let cluster = Cluster::reach(file)?;
    let known = cluster.nodes().list().await?;
    let Some(node) = known.iter().find(|node| node.name == name) else {
        let names: Vec<_> = known.iter().map(|node| node.name.as_str()).collect();
        return Err(Error::not_found(format!("no node {name} is known"))
            .hint(format!("name one of the known nodes: {}", names.join(", "))));
    };
    if lives(node).await {
        return Err(Error::invalid(format!("{name} is up: it answers at {}", node.address))
            .hint("stop the node first; it then reports itself that it is down"));
    }
    cluster.nodes().forget(&name).await?;
    out.show(&json!({ "forgotten": name.as_str() }), || {
        format!("no command waits for {name} any more")
    })
}

/// Whether a node answers on this machine; always false for a node on another machine.
async fn lives(node: &Node) -> bool {
    let endpoint = node.address.parse::<Endpoint>().ok().filter(|place| place.path().is_some());
    let Some(endpoint) = endpoint else { return false };
    let session = Session::open(endpoint, SessionOptions::default());
    let connected = tokio::time::timeout(LIVES_WITHIN, session.until_connected(true)).await;
    connected.is_ok() && session.node().is_some_and(|found| found.name == node.name)
}
