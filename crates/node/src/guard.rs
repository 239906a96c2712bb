//! Who may do what on a node: entities by their records, nodes and the local user without bound.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use nacre::ClusterFile;
use nacre_log::{SEQUENCER_SERVICE, log_asked_about};
use nacre_object::{
    Demand, EntityName, Error, Guard, NodeName, Peer, Result, Standing, TenantName, Unlimited,
};
use nacre_registry::{EntityStanding, LiveEntities, Need, Right};

use crate::node_service::NODE_SERVICE;

/// The guard of a node.
#[derive(Debug)]
pub struct NodeGuard {
    cluster: ClusterFile,
    entities: Arc<LiveEntities>,
}

impl NodeGuard {
    /// A guard that lets in the nodes of `cluster`, and `entities` as their grants are.
    pub fn new(cluster: ClusterFile, entities: Arc<LiveEntities>) -> Self {
        Self { cluster, entities }
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
                Ok(Arc::new(NodeStanding(self.entities.admit(entity, fingerprint).await?)))
            }
        }
    }
}

/// The standing of an entity, as its grants are about objects, maps, programs and logs, with what
/// the node's own services mean by them.
#[derive(Debug)]
struct NodeStanding(EntityStanding);

impl Standing for NodeStanding {
    fn entity(&self) -> &EntityName {
        self.0.entity()
    }

    fn tenant(&self) -> TenantName {
        self.0.tenant()
    }

    fn allow(&self, demand: Demand<'_>) -> Result<()> {
        match demand {
            // Where an object is kept is no secret: placement is a rule everybody can apply.
            Demand::Ask { service: NODE_SERVICE, method: "locate", .. } => Ok(()),
            Demand::Ask { service: SEQUENCER_SERVICE, method, input } => {
                let log = log_asked_about(Bytes::copy_from_slice(input));
                let log = log.ok_or_else(|| Error::invalid("the question names no log"))?;
                self.0.require(Need::Log { right: right_to_ask(method), log: log.as_str() })
            }
            demand => self.0.allow(demand),
        }
    }

    fn ended(&self) -> BoxFuture<'static, ()> {
        self.0.ended()
    }
}

/// Which right on a log a question to its sequencer takes. Who only reads must not depose a sequencer, dead or
/// alive: nobody can tell these apart. A dead one stops no reader, who finds what is written by the objects.
fn right_to_ask(method: &str) -> Right {
    match method {
        "tail" => Right::Read,
        _ => Right::Write,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_only_reads_a_log_asks_for_its_tail_and_changes_no_sequencer() {
        assert_eq!(right_to_ask("tail"), Right::Read);
        for method in ["next", "recover", "reconfigure", "another"] {
            assert_eq!(right_to_ask(method), Right::Write, "{method}");
        }
    }
}
