//! Metrics of the messages that a node delivers for objects.

use std::fmt;

use crate::classes::ClassService;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::metrics::page::{Page, plain};

/// Reads the courier.
#[derive(Debug)]
pub(in super::super) struct ChannelsCollector(pub ClassService);

impl Collector for ChannelsCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(encoder);
        let stats = self.0.deliveries();
        let delivered = [
            ("enqueue", stats.calls),
            ("notify", stats.notifications),
            ("remove_object", stats.removals),
        ];
        let delivered = delivered.map(|(channel, count)| (vec![("channel", channel)], count));
        page.counters(plain("messages_delivered", "Messages of objects, delivered"), delivered)?;
        let help = "Messages of objects that were given up: they are dead letters there";
        page.counter(plain("messages_dead", help), stats.dead)?;
        let help = "Deliveries that failed and are tried again";
        page.counter(plain("message_failures", help), stats.failures)?;
        let help = "Messages that wait for a receiver that failed";
        page.gauge(plain("messages_waiting", help), stats.waiting)
    }
}
