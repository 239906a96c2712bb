//! The nodes a supervisor keeps.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::page::{Page, plain};
use crate::supervisor::SupervisedNode;

/// Reads the states of nodes.
#[derive(Debug)]
pub(super) struct SupervisorCollector(pub Vec<SupervisedNode>);

impl Collector for SupervisorCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(encoder);
        let series = |node| vec![("node", SupervisedNode::name(node))];
        let up = self.0.iter().map(|node| (series(node), u64::from(node.is_up())));
        page.gauges(plain("node_up", "1 while the node serves"), up)?;
        let restarts = self.0.iter().map(|node| (series(node), node.restarts()));
        page.counters(plain("node_restarts", "Starts after an unasked end"), restarts)
    }
}
