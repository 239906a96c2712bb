//! `nacre node set`: what an operator says of a node, for balancer policies.

use std::str::FromStr;

use nacre::Cluster;
use nacre_balance::NodeTraits;
use nacre_object::{Error, NodeName, Result};
use serde_json::json;

use crate::out::{Out, printable};

/// The value of a label that is set without one.
const YES: &str = "yes";

/// The arguments of `nacre node set`
#[derive(Debug, clap::Args)]
pub struct SetArguments {
    /// The node, as `nacre status` names it
    node: NodeName,
    /// Set a label that balancer policies can read, such as `rack=r1`; NAME alone means NAME=yes.
    /// May be repeated
    #[arg(long = "label", value_name = "NAME[=VALUE]")]
    labels: Vec<Label>,
    /// Remove a label. May be repeated
    #[arg(long = "unlabel", value_name = "NAME")]
    unlabels: Vec<String>,
    /// How much load the node can serve, compared with a node of capacity 1 (default: 1)
    #[arg(long, value_name = "NUMBER")]
    capacity: Option<f64>,
}

#[derive(Debug, Clone)]
struct Label {
    name: String,
    value: String,
}

impl FromStr for Label {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, value) = text.split_once('=').unwrap_or((text, YES));
        Ok(Self { name: name.to_owned(), value: value.to_owned() })
    }
}

/// Changes the settings of a node for balancer policies, and shows all of them.
pub async fn run(arguments: SetArguments, cluster: &Cluster, out: Out) -> Result<()> {
    let SetArguments { node, labels, unlabels, capacity } = arguments;
    if labels.is_empty() && unlabels.is_empty() && capacity.is_none() {
        return Err(Error::invalid("no label and no capacity is given")
            .hint("give --label NAME, --unlabel NAME or --capacity NUMBER"));
    }
    check_rank(cluster, &node).await?;
    let change = |traits: &mut NodeTraits| {
        unlabels.iter().for_each(|name| drop(traits.labels.remove(name)));
        traits
            .labels
            .extend(labels.iter().map(|Label { name, value }| (name.clone(), value.clone())));
        traits.capacity = capacity.unwrap_or(traits.capacity);
    };
    let traits = NodeTraits::update(cluster.maps(), &node, change).await?;
    let shown =
        json!({ "node": node.as_str(), "labels": traits.labels, "capacity": traits.capacity });
    out.show(&shown, || format!("{node}: {}", described(&traits)))
}

/// The labels and the capacity of a node, for people.
pub fn described(traits: &NodeTraits) -> String {
    let labels = traits.labels.iter().map(|(name, value)| format!("label {name}={value}"));
    let capacity = format!("capacity {}", traits.capacity);
    printable(&labels.chain([capacity]).collect::<Vec<_>>().join(", "))
}

/// # Errors
/// `NotFound` if the node hosts nothing that can be balanced.
async fn check_rank(cluster: &Cluster, node: &NodeName) -> Result<()> {
    let hosts = cluster.log_env().nodes.nodes().await?;
    if hosts.contains(node) {
        return Ok(());
    }
    let names: Vec<_> = hosts.iter().map(NodeName::as_str).collect();
    Err(Error::not_found(format!("there is no node {node} with units that a balancer can move"))
        .hint(format!("name one of {}", names.join(", "))))
}
