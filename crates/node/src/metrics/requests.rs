//! Metrics of a server's requests, sessions and refused peers.

use std::fmt;

use nacre_wire::Server;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::page::{Page, bytes, plain, seconds};

/// Reads a server.
#[derive(Debug)]
pub(super) struct RequestsCollector(pub Server);

impl Collector for RequestsCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (server, mut page) = (&self.0, Page(encoder));
        let requests = server.requests();
        let results = requests.kinds.iter().flat_map(|kind| {
            let labels = |result| vec![("kind", kind.kind), ("result", result)];
            kind.results.iter().map(move |(result, count)| (labels(*result), *count))
        });
        page.counters(plain("requests", "Requests answered, by kind and result"), results)?;
        let durations =
            requests.kinds.iter().map(|kind| (vec![("kind", kind.kind)], &kind.duration));
        let help = "From when a request was read until its answer was on its way";
        page.histograms(seconds("request_duration", help), durations)?;
        let refusals = server.refusals();
        let refusals = refusals.iter().map(|(why, count)| (vec![("reason", why.as_str())], *count));
        let help = "Connections and sessions that did not come to be, by reason";
        page.counters(plain("refusals", help), refusals)?;
        let help = "Requests begun that wait for something, mostly a sync";
        page.gauge(plain("requests_waiting", help), requests.waiting)?;
        let help = "Bytes that sessions received, without the frames of HTTP/2";
        page.counter(bytes("session_received", help), requests.received_bytes)?;
        let help = "Bytes that sessions sent, without the frames of HTTP/2";
        page.counter(bytes("session_sent", help), requests.sent_bytes)?;
        page.gauge(plain("sessions", "Sessions that are open"), server.session_count())?;
        page.gauge(plain("connections", "Connections that are open"), server.connection_count())
    }
}
