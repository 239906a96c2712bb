//! The engine on Ceph.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::super::ceph_gateway::CephGateway;
use crate::metrics::page::{Page, plain, seconds};

/// Reads the engine.
#[derive(Debug)]
pub(in super::super) struct RadosCollector(pub Arc<CephGateway>);

impl Collector for RadosCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (counts, mut page) = (self.0.engine.osd_counts(), Page(encoder));
        let by = |class, count| (vec![("class", class)], count);
        let help = "Requests that were run inside OSDs, by the class there";
        let requests = [by("nacre", counts.by_plugin), by("lua", counts.by_stock)];
        page.counters(plain("osd_requests", help), requests)?;
        let help = "Requests run here because the OSD would have dropped their answers as too long";
        page.counter(plain("osd_long_answers", help), counts.long_answers)?;
        let help = "Methods that are run here at present for that";
        let methods = i64::try_from(self.0.engine.long_answers().len()).unwrap_or(i64::MAX);
        page.gauge(plain("osd_long_answer_methods", help), methods)?;
        let help = "For how long the cluster has not answered, if that is long; else 0";
        let silence = self.0.pulse.silence().unwrap_or_default();
        page.gauge(seconds("ceph_silence", help), silence.as_secs_f64())
    }
}
