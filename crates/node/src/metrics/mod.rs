//! The metrics that a node reports to Prometheus.
//!
//! Each crate keeps its own counters. The collectors here read the counters when Prometheus
//! requests the page. They name the metrics by Prometheus' conventions, with the unit at the end.
//! [`MetricsListener`] answers `GET /metrics` on a loopback address.
//!
//! | collector | reports |
//! | --- | --- |
//! | `requests` | requests by kind and result, their durations, sessions, connections, rejected peers |
//! | `programs` | versions of the live programs, requests of classes in Brados by size, faults, exceeded budgets |
//! | `supervisor` | which nodes are up, and how often each node was restarted |
//! | `process` | memory, processor time and descriptors, with the names that every Prometheus client uses |
//!
//! The [roles](crate::roles) of a node add their own collectors.

mod endpoint;
pub(crate) mod page;
mod process;
mod programs;
mod requests;
mod supervisor;

use std::fmt;

use crate::classes::ClassService;
use nacre_wire::Server;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

pub use endpoint::{MetricsEndpoint, MetricsListener};

use self::process::ProcessCollector;
pub(crate) use self::process::ProcessStat;
use self::programs::ProgramsCollector;
use self::requests::RequestsCollector;
use self::supervisor::SupervisorCollector;
use crate::supervisor::SupervisedNode;

/// The prefix of the names of nacre's metrics.
const PREFIX: &str = "nacre";

/// The metrics of one process, as it is put together.
#[derive(Debug, Default)]
pub struct Metrics(Registry);

impl Metrics {
    /// The metrics that every process has. `started_at_micros` is since 1970, UTC.
    pub fn of_process(started_at_micros: u64) -> Self {
        let mut metrics = Self::default();
        metrics.0.register_collector(Box::new(ProcessCollector { started_at_micros }));
        metrics.add(process::BuildCollector);
        metrics
    }

    /// Adds the metrics of a server.
    pub fn server(&mut self, server: Server) {
        self.add(RequestsCollector(server));
    }

    /// Adds the programs.
    pub fn programs(&mut self, classes: ClassService) {
        self.add(ProgramsCollector(classes));
    }

    /// Adds the nodes a supervisor keeps.
    pub fn supervisor(&mut self, nodes: Vec<SupervisedNode>) {
        self.add(SupervisorCollector(nodes));
    }

    /// The page, as OpenMetrics text.
    pub(crate) fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.0)?;
        Ok(text)
    }

    /// Adds the metrics of a collector.
    pub(crate) fn add(&mut self, collector: impl Collector) {
        self.0.sub_registry_with_prefix(PREFIX).register_collector(Box::new(collector));
    }
}
