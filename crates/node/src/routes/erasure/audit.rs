//! Compares the fragments that nodes keep with the notes at this node's objects.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nacre_object::{
    Error, IoHeader, ListRequest, NodeName, ObjectId, ObjectName, Op, Result, Store, TargetName,
};
use nacre_route::{CopyDrop, CopyTag, ErasureStub, FastHashSet};
use serde::{Deserialize, Serialize};

use crate::routes::NodeSwitch;
use crate::routes::background::background;
use crate::routes::routed_locations::RoutedLocation;
use crate::routes::service::ROUTE_SERVICE;

/// Names of one page.
const PAGE_NAMES: usize = 1024;
/// How long a node may take to list some fragments.
const LIST_TIME: Duration = Duration::from_secs(5);

/// A switch's question which fragments a node keeps for it.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::routes) struct FragmentListAsk {
    pub home_target: String,
    /// Where the page begins.
    pub after: Option<String>,
}

/// The fragments that a node keeps for the objects of one target.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::routes) struct FragmentList {
    /// The objects that store them.
    pub names: Vec<String>,
    /// Where the next page begins.
    pub next: Option<String>,
}

/// The sets of which each node that has answered keeps a fragment.
#[derive(Debug, Default)]
pub(super) struct Audited(BTreeMap<NodeName, FastHashSet<u64>>);

impl Audited {
    /// A set was made after the audit.
    pub fn note_made(&mut self, set: u64) {
        for sets in self.0.values_mut() {
            sets.insert(set);
        }
    }
}

impl NodeSwitch {
    /// Lists the fragments that this node keeps for the objects of one target.
    pub(in crate::routes) async fn fragments_here(
        &self,
        ask: FragmentListAsk,
    ) -> Result<FragmentList> {
        let after = ask.after.map(ObjectName::new).transpose()?;
        let pool = self.locations().pool().clone();
        let request =
            ListRequest { pool: pool.clone(), after, prefix: String::new(), limit: PAGE_NAMES };
        let listed = self.base().list(request).await?;
        let next = listed.names.last().filter(|_| listed.more).map(ToString::to_string);
        let locations = self.locations().of_nodes()?;
        let is_meant = |name: &ObjectName| {
            let found = locations.fragment_in(&ObjectId::new(pool.clone(), name.clone()));
            found.is_some_and(|(_, home)| locations.holder(&home).as_str() == ask.home_target)
        };
        let names = listed.names.into_iter().filter(is_meant);
        Ok(FragmentList { names: names.map(|name| name.to_string()).collect(), next })
    }

    /// One page of the fragments that another node, or this one, keeps for this node.
    async fn fragments_at(
        &self,
        target: &TargetName,
        node: &NodeName,
        after: Option<String>,
    ) -> Result<FragmentList> {
        let own = self.locations().own();
        let ask = FragmentListAsk { home_target: own.to_string(), after };
        if target == own {
            return self.fragments_here(ask).await;
        }
        let malformed = |cause: serde_json::Error| {
            Error::corrupt(format!("a node's list of fragments is malformed: {cause}"))
                .hint("run one release of nacre on all nodes")
        };
        let input = Bytes::from(serde_json::to_vec(&ask).map_err(malformed)?);
        let transport = self.transport()?;
        let answer = transport.ask(node, ROUTE_SERVICE, "fragments", input, LIST_TIME).await?;
        serde_json::from_slice(&answer).map_err(malformed)
    }

    /// Drops the fragments at a node that belong to no object, and returns the sets of the others.
    async fn audit_node(
        self: &Arc<Self>,
        target: &TargetName,
        node: &NodeName,
    ) -> Result<FastHashSet<u64>> {
        let (mut sets, mut after) = (FastHashSet::default(), None);
        loop {
            let list = self.fragments_at(target, node, after).await?;
            for name in list.names {
                let stored_in = ObjectId::new(self.locations().pool().clone(), name.parse()?);
                let found = self.locations().of_nodes()?.fragment_in(&stored_in);
                let Some((set, home)) = found else { continue };
                match self.is_left_over(&home, set).await? {
                    true => {
                        let place = RoutedLocation { object: stored_in, node: node.clone() };
                        let drop = CopyDrop { tag: CopyTag::LAST };
                        self.change_copy(&place, "copy-drop", drop.encode()).await?;
                    }
                    false => {
                        sets.insert(set);
                    }
                }
            }
            after = list.next;
            if after.is_none() {
                return Ok(sets);
            }
        }
    }

    /// Whether an object has no note of a set of fragments.
    pub(super) async fn is_left_over(&self, home: &ObjectId, set: u64) -> Result<bool> {
        let header = background(home.clone(), Op::Stat)?.header;
        let _turn = self.erasures().share(home).await;
        let coded = self.coded_object(&header).await?;
        Ok(coded.is_none_or(|coded| coded.stub.set.number != set))
    }

    /// Drops fragments that belong to no object, and returns those that are left. While this runs, the
    /// node codes no object. If a node does not answer, the audit has to be repeated.
    pub(super) async fn audit(self: &Arc<Self>) -> (Audited, Result<()>) {
        let (mut audited, mut ended) = (Audited::default(), Ok(()));
        for (target, node) in self.locations().nodes().clone() {
            match self.audit_node(&target, &node).await {
                Ok(sets) => drop(audited.0.insert(node, sets)),
                Err(error) => ended = Err(error),
            }
        }
        (audited, ended)
    }

    /// Whether a fragment of an object is lost, as far as the audit says. The object was coded before
    /// the audit.
    pub(super) fn has_lost_fragments(
        &self,
        header: &IoHeader,
        stub: &ErasureStub,
        audited: &Audited,
    ) -> bool {
        let Ok(locations) = self.locations().of_nodes() else { return false };
        stub.places.iter().any(|place| {
            let Ok(at) = locations.fragment(&header.object, stub.set.number, place) else {
                return false;
            };
            audited.0.get(&at.node).is_some_and(|sets| !sets.contains(&stub.set.number))
        })
    }
}
