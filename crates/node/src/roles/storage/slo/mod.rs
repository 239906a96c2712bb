//! Tail-latency promises on a storage node: the tasks and the service around the layer of
//! `nacre-slo`.

mod background;
mod direct_observer;
mod metrics;
mod miss_reporter;
mod service;

use std::sync::Arc;

use nacre::Cluster;
use nacre_clock::Clock;
use nacre_object::NodeName;
use nacre_rados::RadosEngine;
use nacre_slo::{NodeSlo, follow, share_among_gateways};
use tokio::task::JoinHandle;

pub(super) use self::background::CompactionPace;
pub use self::service::{SLO_SERVICE, WatchRequest};

use self::direct_observer::DirectObserver;
use self::metrics::SloCollector;
use self::miss_reporter::report_misses;
use self::service::SloService;
use crate::roles::Offer;

/// Follows the map `slo` and tells the cluster log about missed promises, until this value is
/// dropped.
#[derive(Debug)]
pub(super) struct SloRuntime(Vec<JoinHandle<()>>);

impl SloRuntime {
    /// Starts the background tasks, and returns the service and the metrics. A gateway also passes
    /// its engine and its clock, which it needs to share OSDs with other gateways and to observe
    /// direct traffic. Needs a tokio runtime.
    pub fn start(
        slo: Arc<NodeSlo>,
        cluster: Cluster,
        node: NodeName,
        gateway: Option<(RadosEngine, Arc<dyn Clock>)>,
        offer: &mut Offer<'_>,
    ) -> Self {
        offer.service(SLO_SERVICE, Arc::new(SloService(Arc::clone(&slo))));
        offer.metrics(SloCollector(Arc::clone(&slo)));
        let mut tasks = vec![follow(cluster.maps().clone(), Arc::clone(&slo))];
        if let Some((engine, clock)) = gateway {
            let (maps, gateway) = (cluster.maps().clone(), node.to_string());
            tasks.push(share_among_gateways(maps, gateway, Arc::clone(&slo), Arc::clone(&clock)));
            let (slo, cluster) = (Arc::clone(&slo), cluster.clone());
            tasks.push(tokio::spawn(DirectObserver { slo, engine, cluster, clock }.run()));
        }
        tasks.push(tokio::spawn(report_misses(slo, cluster, node)));
        Self(tasks)
    }
}

impl Drop for SloRuntime {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}
