//! The sequencers of a node.

use std::fmt;

use nacre_log::SequencerHost;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::metrics::page::{Page, plain, seconds};

/// Reads a host.
#[derive(Debug)]
pub(super) struct SequencersCollector(pub SequencerHost);

impl Collector for SequencersCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(encoder);
        let counts = self.0.counts();
        page.counter(plain("sequencer_positions", "Positions handed out"), counts.positions)?;
        let help = "Questions passed on to nodes that took sequencers over in proxy mode";
        page.counter(plain("sequencer_forwards", help), counts.forwards)?;
        page.gauge(plain("sequencer_logs", "Logs this node is the sequencer of"), counts.logs)?;
        let help = "Logs whose positions a client issues itself";
        page.gauge(plain("sequencer_lent", help), counts.lent)?;
        let help = "Clients that did not give a log's capability back in time";
        page.counter(plain("sequencer_evictions", help), counts.evictions)?;
        let help = "Recoveries that made this node a log's sequencer";
        page.histogram(seconds("sequencer_recovery_duration", help), &counts.recovery_seconds)
    }
}
