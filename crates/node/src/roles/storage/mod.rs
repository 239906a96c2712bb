//! The storage role. A storage node keeps a share of the objects itself, or is a gateway to the
//! Ceph cluster that stores the objects.

mod ceph_gateway;
mod ceph_pools;
mod ceph_pulse;
mod metrics;
mod osd_survey;
mod refused_target;
mod report;
mod room_watch;
mod service;
mod slo;
mod target;

use std::sync::{Arc, Mutex, PoisonError};

use crate::layouts::{LayoutTask, Layouts};
use async_trait::async_trait;
use futures::FutureExt;
use nacre::{ClusterFile, RoleName};
use nacre_embedded::EmbeddedEngine;
use nacre_object::{Error, Locate, Result};
use nacre_placement::PlacedTarget;

pub use self::ceph_pools::{CEPH_POOLS_SERVICE, PlacePool};
pub use self::report::{RadosReport, RefusalReport, StorageReport};
pub use self::service::{DamageReport, STORAGE_SERVICE, ScrubReport, StrayReport};
pub use self::slo::{SLO_SERVICE, WatchRequest};

use self::ceph_gateway::CephGateway;
use self::ceph_pools::CephPoolsService;
use self::metrics::{ChannelsCollector, EngineCollector, RadosCollector};
use self::room_watch::RoomWatch;
use self::service::StorageService;
use self::slo::SloRuntime;
use self::target::StorageTarget;
use super::{JoinContext, Offer, OpenContext, OpenedRole, Role, RunningRole};
use crate::node_service::NodeReport;
use crate::routes::{Gateways, RouteContext, RouteRuntime};

pub(super) const ROLE: Role = Role {
    name: RoleName::Storage,
    open: |context: OpenContext<'_>| {
        async move {
            let OpenContext { file, entry, classes, clock } = context;
            let target = StorageTarget::open(file, entry, classes, clock).await?;
            let (file, entry_name) = (file.clone(), entry.name.clone());
            Ok(Box::new(Storage { target, file, entry_name }) as Box<dyn OpenedRole>)
        }
        .boxed()
    },
};

/// A target that is open.
struct Storage {
    target: StorageTarget,
    file: ClusterFile,
    /// The node in the cluster's file.
    entry_name: String,
}

#[async_trait]
impl OpenedRole for Storage {
    fn target(&self) -> Option<PlacedTarget> {
        Some(self.target.placed())
    }

    async fn join(
        self: Box<Self>,
        node: &JoinContext<'_>,
        offer: &mut Offer<'_>,
    ) -> Result<Arc<dyn RunningRole>> {
        let Self { target, file, entry_name } = *self;
        let (cluster, name) = (node.cluster, &node.record.name);
        let gateway = CephGateway::of(&target, cluster, name, node.clock);
        offer.stack = Some(target.served(cluster.store().placement()));
        offer.is_alone = target.embedded.is_some();
        offer.delivers = match &gateway {
            Some(_) => cluster.store().targets(),
            None if target.refusal.is_none() => vec![target.placed().target.name],
            None => vec![],
        };
        if let Some(engine) = &target.embedded {
            offer.metrics(EngineCollector(engine.clone()));
            refused_target::tell_mended(cluster, name, engine.mended());
        }
        if let Some(gateway) = &gateway {
            offer.metrics(RadosCollector(Arc::clone(gateway)));
            let pools = CephPoolsService(gateway.engine.clone());
            offer.service(CEPH_POOLS_SERVICE, Arc::new(pools));
        }
        offer.metrics(ChannelsCollector(node.classes.clone()));
        let (engine, refusal) = (target.embedded, target.refusal);
        refused_target::tell(cluster, name, refusal.as_ref());
        offer.service(
            STORAGE_SERVICE,
            Arc::new(StorageService {
                node: name.clone(),
                engine: engine.clone(),
                refusal: refusal.clone(),
                cluster: cluster.clone(),
                slo: target.slo.clone(),
                limits: target.limits,
            }),
        );
        let room = engine.clone().map(|engine| {
            RoomWatch::start(engine, cluster.clone(), name.clone(), Arc::clone(node.clock))
        });
        let gateway_of =
            |gateway: &Arc<CephGateway>| (gateway.engine.clone(), Arc::clone(node.clock));
        let observed = gateway.as_ref().map(gateway_of);
        let own_slo = target.slo.clone();
        let slo = target
            .slo
            .map(|slo| SloRuntime::start(slo, cluster.clone(), name.clone(), observed, offer));
        let gateways = match (&gateway, &target.switch, &target.caches) {
            (Some(gateway), Some(switch), Some(caches)) => {
                let engine = gateway.engine.clone();
                let layers = (Arc::clone(switch), Arc::clone(caches));
                let me = (name.clone(), node.record.incarnation);
                let clock = Arc::clone(node.clock);
                let registry = (cluster.maps().clone(), cluster.events().clone());
                let joined = Gateways::join(engine, layers, registry, me, clock);
                Some(Arc::new(joined.await?))
            }
            _ => None,
        };
        let caches = target.caches;
        let routes = target.switch.map(|switch| {
            let context = RouteContext {
                gateways: gateways.clone(),
                cluster,
                node: &node.record.name,
                incarnation: node.record.incarnation,
                clock: node.clock,
                caches,
                slo: own_slo,
                controls: node.classes.controls(),
                control_faults: node.classes.control_faults(),
            };
            RouteRuntime::start(switch, context, offer)
        });
        let layouts = refusal.is_none().then(|| {
            let (incarnation, clock) = (node.record.incarnation, Arc::clone(node.clock));
            LayoutTask::start(Layouts::of(cluster), name.clone(), incarnation, clock)
        });
        let layouts = Mutex::new(layouts);
        Ok(Arc::new(RunningStorage {
            engine,
            refusal,
            gateway,
            gateways,
            layouts,
            file,
            entry_name,
            _room: room,
            slo: Mutex::new(slo),
            routes: Mutex::new(routes),
        }))
    }
}

#[derive(Debug)]
struct RunningStorage {
    /// The engine that keeps objects in this process, if it does.
    engine: Option<EmbeddedEngine>,
    /// Why the target does not serve, if it does not.
    refusal: Option<Error>,
    /// The connection to the Ceph cluster that keeps the objects, if one does.
    gateway: Option<Arc<CephGateway>>,
    /// The other gateways to that cluster, if there is one.
    gateways: Option<Arc<Gateways>>,
    /// Brings classes into other layouts, until the node stops.
    layouts: Mutex<Option<LayoutTask>>,
    file: ClusterFile,
    entry_name: String,
    _room: Option<RoomWatch>,
    /// Follows the promises, until the node stops.
    slo: Mutex<Option<SloRuntime>>,
    /// Follows the rules, until the node stops.
    routes: Mutex<Option<RouteRuntime>>,
}

#[async_trait]
impl RunningRole for RunningStorage {
    fn report(&self, report: &mut NodeReport) {
        report.storage = self.engine.as_ref().map(StorageReport::of);
        report.refusal = self.refusal.as_ref().map(RefusalReport::of);
        report.osds = self.gateway.as_ref().and_then(|gateway| gateway.osds.latest());
        report.rados = self.gateway.as_ref().map(|gateway| gateway.report());
    }

    fn refusal(&self) -> Option<&Error> {
        self.refusal.as_ref()
    }

    async fn until_mended(&self) {
        match (&self.refusal, &self.gateway) {
            (Some(_), _) => refused_target::until_in_order(&self.file, &self.entry_name).await,
            // Only a new connection serves then.
            (None, Some(gateway)) => gateway.engine.until_shut_out().await,
            (None, None) => std::future::pending().await,
        }
    }

    fn withdraw(&self) {
        *self.layouts.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.slo.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.routes.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    async fn close(&self) {
        if let Some(engine) = &self.engine {
            engine.close();
        }
        if let Some(gateways) = &self.gateways {
            gateways.leave().await;
        }
        if let Some(gateway) = &self.gateway {
            gateway.engine.close().await;
        }
    }
}
