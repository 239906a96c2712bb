//! The resources of a node.

use std::fmt;

use nacre_resource::ResourceHost;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::metrics::page::{Page, plain};

/// Reads a host.
#[derive(Debug)]
pub(super) struct ResourcesCollector(pub ResourceHost);

impl Collector for ResourcesCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(encoder);
        let help = "Calls passed on to nodes that took resources over in proxy mode";
        page.counter(plain("resource_forwards", help), self.0.forwards())?;
        let counts = self.0.lending_counts();
        let help = "Resources of which clients hold capabilities";
        page.gauge(plain("resource_lent", help), counts.lent)?;
        let help = "Clients that did not give a resource's capability back in time";
        page.counter(plain("resource_evictions", help), counts.evictions)?;
        let help = "Resources this node is the authority of";
        page.gauge(plain("resource_served", help), self.0.uses().len() as u64)
    }
}
