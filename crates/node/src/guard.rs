//! Decides which caller may do what on a node. An entity (a named client with credentials) has the
//! rights in its record. The cluster's nodes and the local user may do everything.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use nacre::ClusterFile;
use nacre_object::{
    Demand, EntityName, Guard, NodeName, Peer, Result, Standing, TenantName, Unlimited,
};
use nacre_registry::{EntityStanding, LiveEntities};

use crate::node_service::NODE_SERVICE;
use crate::roles::Admission;
use crate::routes::{METHODS_OF_READERS, ROUTE_SERVICE};

/// The guard of a node.
#[derive(Debug)]
pub(crate) struct NodeGuard {
    cluster: ClusterFile,
    entities: Arc<LiveEntities>,
    admissions: Arc<Admissions>,
}

/// The rights that requests to services require, by service name. Services without an entry use the
/// default.
pub(crate) type Admissions = BTreeMap<&'static str, Admission>;

impl NodeGuard {
    /// A guard that lets in the nodes of `cluster`, and `entities` by their grants.
    pub fn new(cluster: ClusterFile, entities: Arc<LiveEntities>, admissions: Admissions) -> Self {
        Self { cluster, entities, admissions: Arc::new(admissions) }
    }

    fn is_node(&self, entity: &EntityName) -> bool {
        let names = self.cluster.nodes().iter().filter_map(|node| NodeName::new(&node.name).ok());
        names.filter_map(|name| EntityName::of_node(&name).ok()).any(|name| name == *entity)
    }
}

#[async_trait]
impl Guard for NodeGuard {
    async fn admit(&self, peer: &Peer) -> Result<Arc<dyn Standing>> {
        match peer {
            Peer::Local => Ok(Arc::new(Unlimited::local())),
            // The authority gives such names to nodes only.
            Peer::Certified { entity, .. } if entity.is_node() => match self.is_node(entity) {
                true => Ok(Arc::new(Unlimited::new(entity.clone()))),
                false => {
                    let text = format!("{entity} is no node of this cluster");
                    Err(self.entities.refusal(entity, text))
                }
            },
            Peer::Certified { entity, fingerprint } => {
                let entity = self.entities.admit(entity, fingerprint).await?;
                Ok(Arc::new(NodeStanding { entity, admissions: Arc::clone(&self.admissions) }))
            }
        }
    }
}

/// The rights of an entity on this node. The entity's grants cover objects, maps, programs and
/// logs. For each service, the node's roles say which right a request needs.
#[derive(Debug)]
struct NodeStanding {
    entity: EntityStanding,
    admissions: Arc<Admissions>,
}

impl Standing for NodeStanding {
    fn entity(&self) -> &EntityName {
        self.entity.entity()
    }

    fn tenant(&self) -> TenantName {
        self.entity.tenant()
    }

    fn allow(&self, demand: Demand<'_>) -> Result<()> {
        match demand {
            // Where an object is kept is no secret: placement is a rule everybody can apply.
            Demand::Ask { service: NODE_SERVICE, method: "locate", .. } => Ok(()),
            // The service checks that the entity may read the object.
            Demand::Ask { service: ROUTE_SERVICE, method, .. }
                if METHODS_OF_READERS.contains(&method) =>
            {
                Ok(())
            }
            Demand::Ask { service, method, input } if self.admissions.contains_key(service) => {
                self.entity.require(self.admissions[service](method, input)?)
            }
            demand => self.entity.allow(demand),
        }
    }

    fn ended(&self) -> BoxFuture<'static, ()> {
        self.entity.ended()
    }
}
