//! Runs the classes of a process that stores objects. This module keeps the class runtime at the
//! active versions and reports its faults to the cluster log. It also runs the courier, the task
//! that delivers the messages that methods send.
//!
//! The service starts in two steps. [`ClassService::new`] makes the runtime, which the engine needs
//! before the process has joined a cluster. [`ClassService::follow`] needs the cluster.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nacre::{Cluster, OWN_SOURCES, native_classes};
use nacre_balance::LivePolicies;
use nacre_channels::{Courier, CourierContext, DeliveryStats, Pace};
use nacre_class::{CalledClass, CallsSeen, ClassRuntime, FaultSink, ProgramFault, UnderWay};
use nacre_clock::{Clock, Random};
use nacre_log::LogEnv;
use nacre_object::{ClassCall, ClassName, Error, NodeName, RemoteClassHost, Result, TargetName};
use nacre_program::{Budget, Limit};
use nacre_registry::{
    FaultReporter, Hooks, KindFaults, LiveEntities, ProgramId, ProgramKind, Subscriber,
};
use nacre_resource::{CapabilityPolicies, LiveFileTypes};
use nacre_route::LiveControls;
use nacre_slo::OrderPrograms;
use nacre_telemetry::Counter;

use super::hooks::{LivePrograms, hooks_of_node};
use crate::routes::{RoutePrograms, Waypoints};

/// How long a call waits for its class. A new version and its source arrive within milliseconds, or
/// within two seconds if a store restarts. A source that is unavailable for longer may never come,
/// so the caller decides whether to try again.
const CATCH_UP_PATIENCE: Duration = Duration::from_secs(5);

/// The classes of this process. Cheap to clone.
#[derive(Clone)]
pub struct ClassService(Arc<Inner>);

struct Inner {
    runtime: Arc<ClassRuntime>,
    hooks: Hooks,
    live: LivePrograms,
    capability_policies: CapabilityPolicies,
    file_type_faults: KindFaults,
    orders: OrderPrograms,
    routes: RoutePrograms,
    route_faults: KindFaults,
    waypoint_faults: KindFaults,
    control_faults: KindFaults,
    faults: Arc<ClusterLog>,
    subscriber: OnceLock<Subscriber>,
    courier: Courier,
}

/// The objects that a process serves. The courier delivers their messages.
#[derive(Debug)]
pub struct Served {
    /// The targets of this process; empty if it stores no objects.
    pub targets: Vec<TargetName>,
    /// Whether no other process serves them.
    pub is_alone: bool,
    /// The entities and their rights.
    pub entities: Arc<LiveEntities>,
}

impl fmt::Debug for ClassService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClassService").finish_non_exhaustive()
    }
}

impl ClassService {
    /// The native classes, and no programs yet.
    ///
    /// # Errors
    /// None but a mistake in the native classes.
    pub fn new(clock: Arc<dyn Clock>) -> Result<Self> {
        let faults = Arc::new(ClusterLog::default());
        let sink: Arc<dyn FaultSink> = faults.clone();
        let courier = Courier::new(Arc::clone(&clock), Random::from_system(), Pace::default());
        let runtime = ClassRuntime::new(Budget::default(), Arc::clone(&clock)).reporting_to(sink);
        for class in native_classes() {
            runtime.register_native(class)?;
        }
        let (runtime, subscriber) = (Arc::new(runtime), OnceLock::new());
        let live = LivePrograms::default();
        let capability_policies = CapabilityPolicies::of(live.capabilities.clone());
        let orders = OrderPrograms::of(live.orders.clone(), Arc::clone(&clock));
        let route_faults = KindFaults::of(ProgramKind::Route);
        let waypoint_faults = KindFaults::of(ProgramKind::Waypoint);
        let waypoints = Waypoints::of(live.waypoints.clone(), waypoint_faults.clone());
        let routes = RoutePrograms::of(live.routes.clone(), route_faults.clone());
        let routes = routes.with_waypoints(waypoints);
        let hooks = hooks_of_node(clock, Arc::clone(&runtime), live.clone());
        Ok(Self(Arc::new(Inner {
            runtime,
            hooks,
            live,
            capability_policies,
            file_type_faults: KindFaults::of(ProgramKind::FileType),
            orders,
            routes,
            route_faults,
            waypoint_faults,
            control_faults: KindFaults::of(ProgramKind::Control),
            faults,
            subscriber,
            courier,
        })))
    }

    /// The class runtime, by which an engine runs methods.
    pub fn host(&self) -> Arc<dyn RemoteClassHost> {
        self.0.runtime.clone()
    }

    /// The class runtime, for the layer that must know which methods send messages.
    pub(crate) fn runtime(&self) -> Arc<ClassRuntime> {
        Arc::clone(&self.0.runtime)
    }

    /// The balancer policies that are live.
    pub(crate) fn policies(&self) -> LivePolicies {
        self.0.live.policies.clone()
    }

    /// The file types that are live.
    pub(crate) fn file_types(&self) -> LiveFileTypes {
        self.0.live.file_types.clone()
    }

    /// Where the faults of file types are reported.
    pub(crate) fn file_type_faults(&self) -> KindFaults {
        self.0.file_type_faults.clone()
    }

    /// The policies that the live capability programs make.
    pub(crate) fn capability_policies(&self) -> CapabilityPolicies {
        self.0.capability_policies.clone()
    }

    /// The control programs that are live.
    pub(crate) fn controls(&self) -> LiveControls {
        self.0.live.controls.clone()
    }

    /// Where the faults of control programs are reported.
    pub(crate) fn control_faults(&self) -> KindFaults {
        self.0.control_faults.clone()
    }

    /// The orders of service that live programs make.
    pub(crate) fn orders(&self) -> OrderPrograms {
        self.0.orders.clone()
    }

    /// The route programs of this process.
    pub(crate) fn routes(&self) -> RoutePrograms {
        self.0.routes.clone()
    }

    /// The environment of this process's sequencers: a client of the cluster, and the capability
    /// policies.
    pub(crate) fn sequencer_env(&self, cluster: &Cluster) -> LogEnv {
        let policies = Arc::new(self.capability_policies());
        LogEnv { policies, ..cluster.log_env().clone() }
    }

    /// The courier, which delivers messages.
    pub(crate) fn courier(&self) -> Courier {
        self.0.courier.clone()
    }

    /// Counts of delivered messages.
    pub fn deliveries(&self) -> DeliveryStats {
        self.0.courier.stats()
    }

    /// Stops deliveries, because the engine is about to be closed. Other processes continue them.
    pub fn stop(&self) {
        self.0.courier.stop();
    }

    /// Starts to follow the active versions of the cluster's programs, and to deliver the messages
    /// that the served objects send. `node` and `incarnation` identify this process. Needs a tokio
    /// runtime.
    pub fn follow(&self, node: NodeName, incarnation: u64, cluster: &Cluster, served: Served) {
        let reporter = FaultReporter::start(cluster.events().clone(), node.clone());
        self.0.capability_policies.report_to(reporter.clone());
        self.0.file_type_faults.report_to(reporter.clone());
        self.0.orders.report_to(reporter.clone());
        self.0.route_faults.report_to(reporter.clone());
        self.0.waypoint_faults.report_to(reporter.clone());
        self.0.control_faults.report_to(reporter.clone());
        // A second call changes nothing: a process is one node.
        let _ = self.0.faults.reporter.set(reporter);
        self.0.subscriber.get_or_init(|| {
            let hooks = self.0.hooks.clone();
            Subscriber::start(node.clone(), incarnation, cluster.programs(), hooks, OWN_SOURCES)
        });
        // The courier starts after the programs: without programs, no class would exist for it.
        if !served.targets.is_empty() {
            self.0.courier.start(CourierContext {
                store: cluster.store().clone(),
                watch: cluster.store().clone(),
                locate: cluster.store().clone(),
                events: cluster.events().clone(),
                entities: served.entities,
                node,
                served: served.targets.into_iter().collect(),
                is_alone: served.is_alone,
            });
        }
    }

    /// The programs that are live here, with their versions.
    pub fn live(&self) -> Vec<(String, u64)> {
        let live = self.0.runtime.live();
        live.into_iter().map(|class| (class.name.to_string(), class.version)).collect()
    }

    /// How its programs failed since it started.
    pub fn failures(&self) -> ProgramFailures {
        let faults = &self.0.faults;
        ProgramFailures {
            faults: faults.faults.get(),
            exceeded: Limit::ALL.map(|limit| (limit, faults.exceeded[limit as usize].get())),
        }
    }

    /// Counts of the calls of each class in Brados since it first became live here, by name.
    pub fn calls_seen(&self) -> Vec<(ClassName, CallsSeen)> {
        self.0.runtime.calls_seen()
    }

    /// Makes sure that this process has loaded the version that a call needs, and counts the call.
    /// If the version is loaded already, this sends no request to the cluster. The call counts as
    /// in flight until the returned value is dropped.
    ///
    /// # Errors
    /// `Stale` if the call names an older version than the active one; `Fault` if the version
    /// cannot be made live here; `Unavailable` if the programs cannot be read, or if the class's
    /// source cannot be read for some seconds.
    pub async fn begin(&self, call: &ClassCall) -> Result<Option<UnderWay>> {
        let mut called = self.0.runtime.called(&call.class);
        let live = called.as_ref().map(CalledClass::version);
        if (live.is_none() || call.version.is_some_and(|version| live != Some(version)))
            && let Some(subscriber) = self.0.subscriber.get()
        {
            // Boxed, because otherwise every call's future would be as large as this rare one.
            Box::pin(catch_up(subscriber, call)).await?;
            called = self.0.runtime.called(&call.class);
        }
        Ok(called.and_then(|called| called.begin(call)))
    }
}

/// Waits until this process has loaded the version that a call needs. A call without a version
/// waits for the active one, because a node that has just started has loaded no programs yet.
async fn catch_up(subscriber: &Subscriber, call: &ClassCall) -> Result<()> {
    let program = program_of(&call.class)?;
    let caught_up = async {
        match call.version {
            Some(version) => subscriber.caught_up(&program, version).await,
            None => subscriber.settled(&program).await,
        }
    };
    tokio::time::timeout(CATCH_UP_PATIENCE, caught_up).await.unwrap_or_else(|_| {
        let seconds = CATCH_UP_PATIENCE.as_secs();
        let text = format!("{program} did not become live within {seconds} s of being asked for");
        let text = match subscriber.failure(&program) {
            Some(error) => format!("{text}: {error}"),
            None => text,
        };
        Err(Error::unavailable(text).hint(format!("see `nacre program status {program}`")))
    })
}

fn program_of(class: &ClassName) -> Result<ProgramId> {
    Ok(ProgramId::new(ProgramKind::Class, class.as_str().parse()?))
}

/// How programs failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramFailures {
    /// Calls that ended with a fault or exceeded a budget.
    pub faults: u64,
    /// For each limit, how many of `faults` exceeded it. The faults of map programs are not counted
    /// by limit.
    pub exceeded: [(Limit, u64); Limit::ALL.len()],
}

/// Counts faults, and passes them from the engine's threads to the cluster log once there is one.
#[derive(Default)]
struct ClusterLog {
    reporter: OnceLock<FaultReporter>,
    faults: Counter,
    exceeded: [Counter; Limit::ALL.len()],
}

impl FaultSink for ClusterLog {
    fn fault(&self, fault: &ProgramFault<'_>) {
        self.faults.add(1);
        if let Some(limit) = fault.limit {
            self.exceeded[limit as usize].add(1);
        }
        if let Some(reporter) = self.reporter.get() {
            reporter.fault(fault);
        }
    }
}
