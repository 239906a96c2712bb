//! Routes at work: the switch of a storage node, and what tells it its rules.
//!
//! Every object has one switch: that of the node that holds it, its *home*. A client that knows nothing of routes asks
//! the home, and the switch sends the IO on. So no two switches have to agree about an object.
//!
//! 1. [`state`]: the map `routes` says which rules there are. [`supported`] refuses what no node executes.
//! 2. [`control`]: each node follows the map. It runs the pure controller for its own switch: the rules are stored
//!    durably on the node, IO is held and drained, the rules are installed, IO goes on.
//! 3. [`node_switch`] and [`layer`]: the runtime of the pure switch. [`pieces`] sends its pieces.
//!    [`programs`] runs the programs that rules name.
//! 4. [`service`]: what switches ask the nodes that keep routed bytes. [`places`] says which object keeps them.
//! 5. [`mover`]: brings bytes home that no rule wants elsewhere.
//! 6. [`tail`]: the application that routes the writes of an overloaded target elsewhere.
//!
//! # Invariants
//!
//! - Before a rule lets writes go elsewhere, its node has stored durably where they may go. So a switch that restarts
//!   knows whom to ask for routed bytes, and holds IO on them until it has been told.
//! - A byte is dropped where it was routed to only after its successor is durable.
//! - Bytes of which nobody knows whether they arrived are dropped before any other IO on them is answered.

mod concern;
mod control;
mod layer;
mod mover;
mod node_switch;
mod pieces;
mod places;
mod programs;
mod record;
mod routed_changes;
mod service;
mod state;
mod supported;
mod tail;

use std::sync::Arc;

use nacre::Cluster;
use nacre_clock::Clock;
use nacre_object::NodeName;
use tokio::task::JoinHandle;

pub use self::layer::SwitchLayer;
pub use self::node_switch::NodeSwitch;
pub use self::places::Places;
pub use self::programs::RoutePrograms;
pub use self::service::{AppliedProgram, AppliedRule, ROUTE_SERVICE, RouteStatus, RouteWay};
pub use self::state::{EVERY_SWITCH, RouteMap, RouteState};
pub use self::supported::{check_declared, check_supported};
pub use self::tail::TailSettings;

use self::service::RouteService;
use crate::roles::Offer;

/// Routes on a node, as long as this lives.
#[derive(Debug)]
pub(crate) struct RouteRuntime(Vec<JoinHandle<()>>);

impl RouteRuntime {
    /// Starts it, and offers the service. Needs a tokio runtime.
    pub fn start(
        switch: Arc<NodeSwitch>,
        cluster: &Cluster,
        node: &NodeName,
        clock: &Arc<dyn Clock>,
        offer: &mut Offer<'_>,
    ) -> Self {
        switch.reach_nodes_by(Arc::clone(&cluster.log_env().sequencers));
        offer.service(ROUTE_SERVICE, Arc::new(RouteService::new(Arc::clone(&switch))));
        let maps = cluster.maps().clone();
        Self(vec![
            tokio::spawn(control::run(Arc::clone(&switch), maps.clone())),
            tokio::spawn(control::tick(Arc::clone(&switch))),
            tokio::spawn(mover::run(Arc::clone(&switch))),
            tokio::spawn(tail::run(switch, cluster.clone(), node.clone(), Arc::clone(clock))),
        ])
    }
}

impl Drop for RouteRuntime {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}
