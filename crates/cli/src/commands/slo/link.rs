//! `nacre slo link`: how fast the network links of nodes are.

use nacre::{Cluster, ClusterFile};
use nacre_object::{NodeName, Result};

use super::units::{self, LinkSpeed};

/// Whose link is how fast
#[derive(Debug, clap::Args)]
#[command(allow_missing_positional = true)]
pub struct LinkArguments {
    /// The node
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    node: Option<NodeName>,
    /// As 1Gbit or 125MB a second; `off`: no longer known, so nothing is limited
    #[arg(value_parser = units::speed_or_off)]
    speed: LinkSpeed,
    /// All nodes
    #[arg(long)]
    all: bool,
}

/// States the speed.
pub(super) async fn link(arguments: &LinkArguments, file: &ClusterFile) -> Result<()> {
    let nodes: Vec<_> = match &arguments.node {
        Some(node) => vec![file.node(node.as_str())?.node_name()?],
        None => file.nodes().iter().map(|node| node.node_name()).collect::<Result<_>>()?,
    };
    Cluster::reach(file)?.slos().set_links(&nodes, arguments.speed.0).await
}
