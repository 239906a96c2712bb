//! Routes on a storage node: rules that send reads and writes (IO) of objects to other nodes. This
//! module has the node's *switch*, which applies the rules, and the controller, which gives the
//! switch its rules.
//!
//! The node that holds an object is the object's *home*, and only the home's switch decides about
//! the object. A client knows nothing of routes and sends requests to the home. So no two switches
//! have to agree about an object. On Ceph, the switch of one gateway decides about all objects.
//!
//! 1. [`state`]: the map `routes` says which rules there are. [`supported`] refuses rules that
//!    nodes cannot execute.
//! 2. [`follower`] reads the map. [`control`] runs the pure controller for the node's own switch.
//!    The controller stores the rules durably on the node. It then stops new IO, waits for IO in
//!    flight, installs the rules, and lets IO continue.
//! 3. [`node_switch`], [`submission`], [`switch_core`], [`live_io`] and [`layer`]: the runtime of the
//!    pure switch. [`unconcerned`] lets IO pass that no rule concerns.
//!    [`work`] does what the pure switch commands: [`pieces`] sends the pieces of an IO, and
//!    [`programs`] runs the programs that rules name. [`read_with_stat`] answers reads of whole
//!    objects.
//! 4. [`service`] receives the requests of switches about routed bytes, and [`kept_bytes`] runs
//!    them, and [`dropped`] refuses delayed ones. [`routed_locations`] says which object keeps the bytes: [`node_locations`] if nodes
//!    keep the objects, [`rados_locations`] on Ceph. [`report`] and [`trace`] show what the switch
//!    does.
//! 5. [`mover`]: brings bytes home when no rule sends them elsewhere any more. [`spreader`]: moves bytes
//!    at rest to where rules send them. [`object_pages`]: the objects that a rule is about.
//! 6. [`copies`]: copies of objects, which serve reads. [`versions`] and [`snapshots`]: former states of
//!    objects. [`turns`]: the order of changes that all of them need. [`direct`]: reads of routed bytes by
//!    clients that have a switch of their own. [`waypoints`]: stages that IO passes. [`erasure`]: fragments of
//!    objects at rest.
//! 7. [`applications`]: programs that make rules by what the switches count ([`statistics`]).
//!    [`analysis`] checks the rules as a whole. [`controller_asks`] is how a switch asks the
//!    controller for rules about an IO.
//! 8. [`gateways`]: which gateway to Ceph routes, and how the others forward IO to it.
//! 9. [`in_force`], [`tally`] and [`metrics`]: which epoch of the map the node applies, and what
//!    the switch has done.
//!
//! # Invariants
//!
//! - A node stores durably where a rule may send writes, before the rule is in force. So a switch
//!   that restarts knows which nodes to ask for routed bytes. Until all of them have answered, it
//!   holds IO on the bytes of objects that rules match.
//! - A node drops old bytes only after newer bytes are durable elsewhere.
//! - If it is unknown whether a write arrived, the switch drops the write's bytes before any IO that
//!   could meet them.

mod analysis;
mod applications;
mod background;
mod concern;
mod control;
mod controller_asks;
mod copies;
mod direct;
mod dropped;
mod erasure;
mod follower;
mod gateways;
mod homes;
mod in_force;
mod kept_bytes;
mod layer;
mod live_io;
mod metrics;
mod mover;
mod node_locations;
mod node_switch;
mod object_pages;
mod onward;
mod pieces;
mod programs;
mod rados_locations;
mod read_with_stat;
mod record;
mod report;
mod routed_changes;
mod routed_locations;
mod service;
mod snapshots;
mod spreader;
mod state;
mod statistics;
mod submission;
mod supported;
#[cfg(test)]
mod supported_tests;
mod switch_core;
mod tally;
mod trace;
mod turns;
mod unconcerned;
mod versions;
mod waypoints;
mod work;

use std::sync::{Arc, Mutex};

use nacre::Cluster;
use nacre_clock::Clock;
use nacre_object::NodeName;
use nacre_registry::KindFaults;
use nacre_route::LiveControls;
use nacre_slo::NodeSlo;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use self::analysis::{KnownPrograms, check_switches, findings as route_findings};
pub use self::applications::{ApplicationReport, ControllerReport};
pub(crate) use self::background::background_stat;
pub use self::copies::{CopiesStatus, CopyWay};
pub use self::erasure::ErasureStatus;
pub(crate) use self::gateways::Gateways;
pub use self::in_force::RouteProgress;
pub use self::layer::SwitchLayer;
pub use self::node_switch::NodeSwitch;
pub use self::onward::Onward;
pub use self::programs::RoutePrograms;
pub use self::report::{AppliedProgram, AppliedRule, AppliedWaypoint, RouteStatus, RouteWay};
pub use self::routed_locations::RoutedLocations;
pub(crate) use self::service::METHODS_OF_READERS;
pub use self::service::ROUTE_SERVICE;
pub use self::state::{EVERY_SWITCH, RouteMap, RouteState, StartedApplication};
pub use self::supported::{
    check_declared, check_put_by_hand, check_supported, check_supported_on_ceph, check_waypoint,
};
pub use self::waypoints::Waypoints;

use self::applications::{ApplicationsTask, ControllerCollector, Reports, WaitingIos};
use self::controller_asks::ControllerLink;
use self::copies::CopyStore;
use self::direct::DirectKeeper;
use self::dropped::Dropped;
use self::in_force::InForce;
use self::metrics::RoutesCollector;
use self::service::RouteService;
use crate::cache::{self, CachesCollector, NodeCache};
use crate::roles::Offer;

/// The tasks of the routes on a node. They end when this is dropped.
#[derive(Debug)]
pub(crate) struct RouteRuntime {
    tasks: Vec<JoinHandle<()>>,
    waiting: Arc<WaitingIos>,
}

/// The parts of the node that routes need.
#[derive(Debug)]
pub(crate) struct RouteContext<'a> {
    pub cluster: &'a Cluster,
    pub node: &'a NodeName,
    pub incarnation: u64,
    pub clock: &'a Arc<dyn Clock>,
    /// The caches of reads.
    pub caches: Option<Arc<NodeCache>>,
    /// The promised latencies, unless the node is a gateway to Ceph.
    pub slo: Option<Arc<NodeSlo>>,
    /// The other gateways to Ceph, if the node is one.
    pub gateways: Option<Arc<Gateways>>,
    /// The control programs that are live on the node.
    pub controls: LiveControls,
    /// Where the faults of control programs are reported.
    pub control_faults: KindFaults,
}

impl RouteRuntime {
    /// Starts the tasks of routes and caches, and offers the service `route`. Needs a tokio runtime.
    pub fn start(
        switch: Arc<NodeSwitch>,
        context: RouteContext<'_>,
        offer: &mut Offer<'_>,
    ) -> Self {
        let RouteContext {
            cluster,
            node,
            incarnation,
            clock,
            caches,
            slo,
            gateways,
            controls,
            control_faults,
        } = context;
        switch.reach_nodes_by(Arc::clone(&cluster.log_env().sequencers));
        let in_force = Arc::new(InForce::new(switch.locations().own().to_string()));
        let reports = Arc::new(Reports::default());
        let waiting = Arc::new(WaitingIos::default());
        let direct = Arc::new(DirectKeeper::new(Arc::clone(&switch), slo));
        let service = RouteService {
            switch: Arc::clone(&switch),
            caches: caches.clone(),
            in_force: Arc::clone(&in_force),
            reports: Arc::clone(&reports),
            waiting: Arc::clone(&waiting),
            copies: CopyStore::new(Arc::clone(&switch)),
            direct: Arc::clone(&direct),
            dropped: Dropped::default(),
            terms: Mutex::default(),
        };
        offer.service(ROUTE_SERVICE, Arc::new(service));
        offer.metrics(RoutesCollector {
            switch: Arc::clone(&switch),
            in_force: Arc::clone(&in_force),
            direct,
        });
        offer.metrics(ControllerCollector(Arc::clone(&reports)));
        let maps = cluster.maps().clone();
        let (sender, states) = watch::channel(RouteState::default());
        switch.ask_controller_by(ControllerLink {
            routes: states.clone(),
            in_force: Arc::clone(&in_force),
        });
        let mut tasks = vec![];
        if let Some(caches) = caches {
            offer.metrics(CachesCollector(Arc::clone(&caches)));
            // On Ceph, the gateways have to agree on the settings before they are in force.
            if gateways.is_none() {
                let reached = Arc::clone(&in_force);
                let note = move |applied| reached.note_caches(applied);
                tasks.push(tokio::spawn(cache::follow(Arc::clone(&caches), states.clone(), note)));
            }
            tasks.push(tokio::spawn(cache::tick(caches)));
        }
        if let Some(gateways) = &gateways {
            let (states, in_force) = (states.clone(), Arc::clone(&in_force));
            tasks.push(tokio::spawn(Arc::clone(gateways).take_part(states, in_force)));
        }
        tasks.extend([
            tokio::spawn(follower::follow(maps, sender, Arc::clone(&in_force))),
            tokio::spawn(control::run(
                Arc::clone(&switch),
                states.clone(),
                Arc::clone(&in_force),
                gateways,
            )),
            tokio::spawn(control::tick(Arc::clone(&switch))),
            tokio::spawn(mover::run(Arc::clone(&switch))),
            tokio::spawn(spreader::run(Arc::clone(&switch))),
            tokio::spawn(copies::run(Arc::clone(&switch))),
            tokio::spawn(erasure::run(Arc::clone(&switch))),
            tokio::spawn(snapshots::sweep(Arc::clone(&switch))),
            tokio::spawn(applications::run(ApplicationsTask {
                switch,
                cluster: cluster.clone(),
                node: node.clone(),
                incarnation,
                clock: Arc::clone(clock),
                programs: controls,
                faults: control_faults,
                reports,
                waiting: Arc::clone(&waiting),
                routes: states,
            })),
        ]);
        Self { tasks, waiting }
    }
}

impl Drop for RouteRuntime {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.waiting.close();
    }
}
