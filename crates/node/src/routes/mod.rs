//! Routes on a storage node: rules that send reads and writes (IO) of objects to other nodes. This
//! module has the node's *switch*, which applies the rules, and the controller, which gives the
//! switch its rules.
//!
//! The node that holds an object is the object's *home*, and only the home's switch decides about
//! the object. A client knows nothing of routes and sends requests to the home. So no two switches
//! have to agree about an object.
//!
//! 1. [`state`]: the map `routes` says which rules there are. [`supported`] refuses rules that
//!    nodes cannot execute.
//! 2. [`control`]: each node follows the map and runs the pure controller for its own switch. The
//!    controller stores the rules durably on the node. It then stops new IO, waits for IO in
//!    flight, installs the rules, and lets IO continue.
//! 3. [`node_switch`], [`live_io`] and [`layer`]: the runtime of the pure switch. [`work`] does what the
//!    pure switch commands: [`pieces`] sends the pieces of an IO, and [`programs`] runs the programs
//!    that rules name. [`read_with_stat`] answers reads of whole objects.
//! 4. [`service`]: the requests of switches to the nodes that keep routed bytes. [`places`] says
//!    which object keeps the bytes. [`report`] is the service's report about the switch.
//! 5. [`mover`]: brings bytes home when no rule sends them elsewhere any more.
//! 6. [`copies`]: copies of objects for reads.
//! 7. [`applications`]: programs that make rules by what the switches count ([`statistics`]).
//!    [`analysis`] checks the rules as a whole.
//! 8. [`in_force`], [`tally`] and [`metrics`]: which epoch of the map the node applies, and what
//!    the switch has done.
//!
//! # Invariants
//!
//! - A node stores durably where a rule may send writes, before the rule is in force. So a switch
//!   that restarts knows which nodes to ask for routed bytes. It holds IO on these bytes until the
//!   nodes have answered.
//! - A node drops old bytes only after newer bytes are durable elsewhere.
//! - If it is unknown whether a write arrived, the switch drops the write's bytes before it answers
//!   any other IO on them.

mod analysis;
mod applications;
mod concern;
mod control;
mod copies;
mod homes;
mod in_force;
mod layer;
mod live_io;
mod metrics;
mod mover;
mod node_switch;
mod pieces;
mod places;
mod programs;
mod read_with_stat;
mod record;
mod report;
mod routed_changes;
mod service;
mod state;
mod statistics;
mod supported;
mod tally;
mod work;

use std::sync::{Arc, Mutex};

use nacre::Cluster;
use nacre_clock::Clock;
use nacre_object::NodeName;
use nacre_registry::KindFaults;
use nacre_route::LiveControls;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use self::analysis::{check_switches, findings as route_findings};
pub use self::applications::{ApplicationReport, ControllerReport};
pub use self::copies::{CopiesStatus, CopyWay};
pub use self::in_force::RouteProgress;
pub use self::layer::SwitchLayer;
pub use self::node_switch::NodeSwitch;
pub use self::places::Places;
pub use self::programs::RoutePrograms;
pub use self::report::{AppliedProgram, AppliedRule, RouteStatus, RouteWay};
pub use self::service::ROUTE_SERVICE;
pub use self::state::{EVERY_SWITCH, RouteMap, RouteState, StartedApplication};
pub use self::supported::{check_declared, check_supported};

use self::applications::{ApplicationsTask, ControllerCollector, Reports};
use self::copies::CopyStore;
use self::in_force::InForce;
use self::metrics::RoutesCollector;
use self::service::RouteService;
use crate::cache::{self, CachesCollector, NodeCache};
use crate::roles::Offer;

/// Routes on a node, as long as this lives.
#[derive(Debug)]
pub(crate) struct RouteRuntime(Vec<JoinHandle<()>>);

/// What routes need of the node that starts them.
#[derive(Debug)]
pub(crate) struct RouteContext<'a> {
    pub cluster: &'a Cluster,
    pub node: &'a NodeName,
    pub incarnation: u64,
    pub clock: &'a Arc<dyn Clock>,
    pub caches: Arc<NodeCache>,
    /// The control programs that are live on the node.
    pub controls: LiveControls,
    /// Where the faults of control programs are reported.
    pub control_faults: KindFaults,
}

impl RouteRuntime {
    /// Starts it with the caches, and offers the service. Needs a tokio runtime.
    pub fn start(
        switch: Arc<NodeSwitch>,
        context: RouteContext<'_>,
        offer: &mut Offer<'_>,
    ) -> Self {
        let RouteContext { cluster, node, incarnation, clock, caches, controls, control_faults } =
            context;
        switch.reach_nodes_by(Arc::clone(&cluster.log_env().sequencers));
        let in_force = Arc::new(InForce::new(switch.places().own().to_string()));
        let reports = Arc::new(Reports::default());
        let service = RouteService {
            switch: Arc::clone(&switch),
            caches: Arc::clone(&caches),
            in_force: Arc::clone(&in_force),
            reports: Arc::clone(&reports),
            copies: CopyStore::new(Arc::clone(&switch)),
            terms: Mutex::default(),
        };
        offer.service(ROUTE_SERVICE, Arc::new(service));
        offer.metrics(RoutesCollector {
            switch: Arc::clone(&switch),
            in_force: Arc::clone(&in_force),
        });
        offer.metrics(ControllerCollector(Arc::clone(&reports)));
        offer.metrics(CachesCollector(Arc::clone(&caches)));
        let maps = cluster.maps().clone();
        let (followers, routes) = watch::channel(RouteState::default());
        let reached = Arc::clone(&in_force);
        let note = move |applied| reached.note_caches(applied);
        Self(vec![
            tokio::spawn(control::run(Arc::clone(&switch), maps.clone(), in_force)),
            tokio::spawn(applications::follow(maps.clone(), followers)),
            tokio::spawn(control::tick(Arc::clone(&switch))),
            tokio::spawn(mover::run(Arc::clone(&switch))),
            tokio::spawn(copies::run(Arc::clone(&switch))),
            tokio::spawn(cache::follow(Arc::clone(&caches), maps, note)),
            tokio::spawn(cache::tick(caches)),
            tokio::spawn(applications::run(ApplicationsTask {
                switch,
                cluster: cluster.clone(),
                node: node.clone(),
                incarnation,
                clock: Arc::clone(clock),
                programs: controls,
                faults: control_faults,
                reports,
                routes,
            })),
        ])
    }
}

impl Drop for RouteRuntime {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}
