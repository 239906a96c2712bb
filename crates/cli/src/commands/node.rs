//! `nacre node`: one node's process, started by a supervisor.

use std::path::Path;

use nacre::ClusterFile;
use nacre_node::{Node, NodeOptions, ready_line};
use nacre_object::Result;
use tokio::io::AsyncReadExt;

use super::up::interrupted;
use crate::out::Out;

/// What `nacre node` is told
#[derive(Debug, clap::Args)]
pub struct NodeArguments {
    /// Which of the cluster's nodes to be
    #[arg(long)]
    name: String,
    /// Finish when standard input ends: the supervisor is gone then
    #[arg(long)]
    supervised: bool,
    /// The loopback port for its metrics; 0 for any that is free
    #[arg(long, default_value_t = 0)]
    metrics_port: u16,
}

/// Serves until SIGINT, SIGTERM or, supervised, the end of standard input.
pub async fn run(arguments: NodeArguments, folder: &Path) -> Result<()> {
    let interrupted = interrupted()?;
    let cluster = ClusterFile::read(folder)?;
    let options = NodeOptions { metrics_port: arguments.metrics_port };
    let node = Node::start(&cluster, &arguments.name, options).await?;
    Out::new(false).line(&ready_line(node.metrics_address()))?;
    tokio::select! {
        () = interrupted => {}
        () = orphaned(), if arguments.supervised => {}
    }
    node.stop().await
}

async fn orphaned() {
    let mut ignored = [0; 64];
    let mut input = tokio::io::stdin();
    while matches!(input.read(&mut ignored).await, Ok(n) if n > 0) {}
}
