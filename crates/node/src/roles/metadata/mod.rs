//! The metadata role. It hosts the sequencers of logs and the shared resources, and balances them
//! with the other metadata nodes. It also removes stored sources of programs that nothing uses any
//! more.

mod balancer;
mod resource_metrics;
mod resource_service;
mod sequencer_metrics;
mod sequencer_service;

use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use nacre::RoleName;
use nacre_log::{SEQUENCER_SERVICE, SequencerHost};
use nacre_object::Result;
use nacre_registry::ProgramUpkeep;
use nacre_resource::{RESOURCE_SERVICE, ResourceHost};

use self::balancer::{BALANCER_SERVICE, Balancer, BalancerContext, Units};
use self::resource_metrics::ResourcesCollector;
use self::resource_service::{ResourceService, resource_env};
use self::sequencer_metrics::SequencersCollector;
use self::sequencer_service::{SequencerService, need_to_ask};
use crate::node_service::NodeReport;

use super::{JoinContext, Offer, OpenedRole, Role, RunningRole};

pub(super) const ROLE: Role = Role {
    name: RoleName::Metadata,
    open: |_| async { Ok(Box::new(Metadata) as Box<dyn OpenedRole>) }.boxed(),
};

/// It keeps nothing itself.
struct Metadata;

#[async_trait]
impl OpenedRole for Metadata {
    async fn join(
        self: Box<Self>,
        node: &JoinContext<'_>,
        offer: &mut Offer<'_>,
    ) -> Result<Arc<dyn RunningRole>> {
        let (name, cluster) = (&node.record.name, node.cluster);
        let host = SequencerHost::new(name.clone(), node.classes.sequencer_env(cluster));
        offer.metrics(SequencersCollector(host.clone()));
        let service = Arc::new(SequencerService::new(host.clone()));
        offer.guarded_service(SEQUENCER_SERVICE, service, need_to_ask);
        let resources = ResourceHost::new(name.clone(), resource_env(node));
        offer.metrics(ResourcesCollector(resources.clone()));
        let service = Arc::new(ResourceService::new(resources.clone()));
        offer.service(RESOURCE_SERVICE, service);
        let balancer = Balancer::start(BalancerContext {
            node: name.clone(),
            cluster: cluster.clone(),
            units: Units { sequencers: host, resources },
            policies: node.classes.policies(),
            clock: Arc::clone(node.clock),
        })?;
        offer.service(BALANCER_SERVICE, Arc::new(balancer.service()));
        let upkeep = ProgramUpkeep::start(cluster.programs().clone(), name.clone());
        Ok(Arc::new(RunningMetadata { balancer, _upkeep: upkeep }))
    }
}

#[derive(Debug)]
struct RunningMetadata {
    balancer: Balancer,
    _upkeep: ProgramUpkeep,
}

impl RunningRole for RunningMetadata {
    fn report(&self, report: &mut NodeReport) {
        report.traits = Some(self.balancer.traits());
    }

    fn withdraw(&self) {
        self.balancer.stop();
    }
}
