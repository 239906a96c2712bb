//! `nacre slo link`: sets the speed of the network links of nodes.

use nacre::{Cluster, ClusterFile};
use nacre_object::{NodeName, Result};
use nacre_slo::SloState;

use super::super::route::check_slo_change;
use super::units::{self, LinkSpeed};

/// The node, and the speed of its link
#[derive(Debug, clap::Args)]
#[command(allow_missing_positional = true)]
pub struct LinkArguments {
    /// The node
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    node: Option<NodeName>,
    /// The link's speed, as 1Gbit or 125MB a second; `off`: forget the speed, and limit nothing
    #[arg(value_parser = units::speed_or_off)]
    speed: LinkSpeed,
    /// Set the speed for all nodes
    #[arg(long)]
    all: bool,
}

/// Sets the speed of the link of one node, or of all nodes.
pub(super) async fn link(arguments: &LinkArguments, file: &ClusterFile) -> Result<()> {
    let nodes: Vec<_> = match &arguments.node {
        Some(node) => vec![file.node(node.as_str())?.node_name()?],
        None => file.nodes().iter().map(|node| node.node_name()).collect::<Result<_>>()?,
    };
    let (cluster, speed) = (Cluster::reach(file)?, arguments.speed.0);
    if let Some(link) = speed {
        let stated = |slo: &mut SloState| {
            slo.links.extend(nodes.iter().map(|node| (node.clone(), link)));
        };
        check_slo_change(file, &cluster, None, stated).await?;
    }
    cluster.slos().set_links(&nodes, speed).await
}
