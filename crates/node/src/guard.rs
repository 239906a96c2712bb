//! Who may do what on a node: entities by their records, nodes and the local user without bound.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use nacre::ClusterFile;
use nacre_log::{SEQUENCER_SERVICE, is_question_of_producers, log_asked_about};
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
                self.0.require(need_to_ask(method, input, log.as_str()))
            }
            demand => self.0.allow(demand),
        }
    }

    fn ended(&self) -> BoxFuture<'static, ()> {
        self.0.ended()
    }
}

/// What a question to a log's sequencer takes. A reader must not depose a sequencer, dead or alive: nobody can
/// tell these apart. A dead one stops no reader, who finds what is written by the objects. But it stops a
/// producer, who therefore has it replaced.
fn need_to_ask<'a>(method: &str, input: &[u8], log: &'a str) -> Need<'a> {
    match method {
        "tail" => Need::LogView { log },
        _ if is_question_of_producers(method, input) => Need::Log { right: Right::Append, log },
        _ => Need::Log { right: Right::Write, log },
    }
}

#[cfg(test)]
mod tests {
    use nacre_registry::{Grant, Grants};

    use super::*;

    #[test]
    fn a_reader_of_a_log_asks_for_its_tail_and_changes_no_sequencer() {
        let may_ask = |grant: &str, method| {
            let grants: Grants = [grant.parse::<Grant>().unwrap()].into_iter().collect();
            grants.covers(&need_to_ask(method, b"", "l"))
        };
        assert!(["r log=l", "a log=l", "w log=l"].iter().all(|grant| may_ask(grant, "tail")));
        for (method, by_producers) in
            [("next", true), ("recover", true), ("reconfigure", false), ("another", false)]
        {
            assert!(!may_ask("r log=l", method) && may_ask("w log=l", method), "{method}");
            assert_eq!(may_ask("a log=l", method), by_producers, "{method}");
        }
    }
}
