//! What a node tells Prometheus of itself.
//!
//! Rooms count for themselves; the collectors here read their counts when somebody asks, and give
//! them names: Prometheus' conventions, with the unit at the end. [`MetricsListener`] answers
//! `GET /metrics` on a loopback address.
//!
//! | collector | tells of |
//! | --- | --- |
//! | `requests` | requests by kind and result, how long they took, sessions, connections, peers that did not get in |
//! | `engine` | transactions, groups and their syncs, bytes of journal and tables, free space |
//! | `rados` | requests that OSDs ran, and those whose answers are too long for them; how long the cluster is silent |
//! | `channels` | messages of objects: delivered, given up, waiting |
//! | `programs` | versions of the live programs, requests of classes in Brados by size, faults, budgets exceeded |
//! | `sequencers` | positions handed out, logs, recoveries |
//! | `supervisor` | which nodes are up, how often each was started again |
//! | `process` | memory, processor time, descriptors, as every Prometheus client names them |

mod channels;
mod endpoint;
mod engine;
mod page;
mod process;
mod programs;
mod rados;
mod requests;
mod sequencers;
mod supervisor;

use std::sync::Arc;

use nacre::ClassService;
use nacre_embedded::EmbeddedEngine;
use nacre_log::SequencerHost;
use nacre_wire::Server;
use prometheus_client::collector::Collector;
use prometheus_client::registry::Registry;

pub use endpoint::{MetricsEndpoint, MetricsListener};

use self::channels::ChannelsCollector;
use self::engine::EngineCollector;
use self::process::ProcessCollector;
use self::programs::ProgramsCollector;
use self::rados::RadosCollector;
use self::requests::RequestsCollector;
use self::sequencers::SequencersCollector;
use self::supervisor::SupervisorCollector;
use crate::ceph_gateway::CephGateway;
use crate::supervisor::KeptNode;

/// What every metric of ours begins with.
const PREFIX: &str = "nacre";

/// The metrics of one process, as it is put together.
#[derive(Debug, Default)]
pub struct Metrics(Registry);

impl Metrics {
    /// Those every process has. `started_at_micros` is since 1970, UTC.
    pub fn of_process(started_at_micros: u64) -> Self {
        let mut metrics = Self::default();
        metrics.0.register_collector(Box::new(ProcessCollector { started_at_micros }));
        metrics.add(process::BuildCollector);
        metrics
    }

    /// Adds what a server answers.
    pub fn server(&mut self, server: Server) {
        self.add(RequestsCollector(server));
    }

    /// Adds an engine.
    pub fn engine(&mut self, engine: EmbeddedEngine) {
        self.add(EngineCollector(engine));
    }

    /// Adds the engine on Ceph.
    pub(crate) fn rados(&mut self, gateway: Arc<CephGateway>) {
        self.add(RadosCollector(gateway));
    }

    /// Adds what is delivered.
    pub fn channels(&mut self, classes: ClassService) {
        self.add(ChannelsCollector(classes));
    }

    /// Adds the programs.
    pub fn programs(&mut self, classes: ClassService) {
        self.add(ProgramsCollector(classes));
    }

    /// Adds the sequencers.
    pub fn sequencers(&mut self, host: SequencerHost) {
        self.add(SequencersCollector(host));
    }

    /// Adds the nodes a supervisor keeps.
    pub fn supervisor(&mut self, nodes: Vec<KeptNode>) {
        self.add(SupervisorCollector(nodes));
    }

    fn add(&mut self, collector: impl Collector) {
        self.0.sub_registry_with_prefix(PREFIX).register_collector(Box::new(collector));
    }
}
