//! `NodeSwitch`: the switch of a node, which routes IO to other nodes by rules. It passes each IO
//! to the pure switch (crate `route`), and carries out the commands that the pure switch returns.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures::future::FutureExt;
use nacre_clock::{Clock, Random};
use nacre_host::HostTransport;
use nacre_object::{
    Error, IoHeader, LayerName, ObjectId, Op, Reply, Request, Result, Stack, Store, SwitchName,
};
use nacre_route::{
    Copies, CopySettings, Destination, Event, Order, OrderAnswer, Record, Rule, Span, Switch, Term,
    touches_bytes,
};
use tokio::sync::{broadcast, oneshot, watch};

use super::RoutePrograms;
use super::concern::{CopyTargets, FreePass, Matches, PresentConcern, is_scattering};
use super::controller_asks::ControllerLink;
use super::copies::Updates;
use super::erasure::Erasures;
use super::gateways::Router;
use super::onward::Onward;
use super::routed_changes::RoutedChanges;
use super::routed_locations::RoutedLocations;
use super::snapshots::{SnapshotRules, Snapshots};
use super::statistics::CountsByTarget;
use super::switch_core::Core;
use super::versions::Versions;
use super::work::Work;
use crate::late_changes::LateChanges;

/// How many changes of routed bytes are queued for a slow watcher. A watcher that is further behind
/// receives `Lost` and knows that it missed some changes.
const QUEUED_CHANGES: usize = 1024;

/// A node's switch at work. Shared by the layers, the services and the tasks of the node.
pub struct NodeSwitch {
    name: SwitchName,
    locations: RoutedLocations,
    programs: RoutePrograms,
    clock: Arc<dyn Clock>,
    /// The paths to the node's own objects below the switch.
    own: Onward,
    core: Mutex<Core>,
    /// Chooses among copies.
    random: Mutex<Random>,
    concern: PresentConcern,
    /// Changes whose outcome is unknown, if the engine leaves some so.
    late_changes: Option<LateChanges>,
    next_number: AtomicU64,
    counts: CountsByTarget,
    transport: OnceLock<Arc<dyn HostTransport>>,
    controller: OnceLock<ControllerLink>,
    /// Which node routes IO: of gateways to Ceph only one.
    router: Router,
    /// Whether an installed rule is only for the objects of one target.
    pub(super) has_homes: AtomicBool,
    /// Whether an installed rule sends reads past a layer.
    has_bypass: AtomicBool,
    versions: Versions,
    snapshots: Snapshots,
    updates: Updates,
    erasures: Erasures,
    /// The term of the installed rules; 0 until there are some.
    installed: watch::Sender<u64>,
    changes: broadcast::Sender<ObjectId>,
    /// The record as the node found it when it started.
    loaded: Record,
}

fn not_joined() -> Error {
    Error::unavailable("the node has not joined its cluster yet").hint("try again in a second")
}

impl fmt::Debug for NodeSwitch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeSwitch").field("name", &self.name).finish_non_exhaustive()
    }
}

impl NodeSwitch {
    /// A switch that has just started, with the contents of the node's record.
    pub fn new(
        own: Onward,
        locations: RoutedLocations,
        programs: RoutePrograms,
        clock: Arc<dyn Clock>,
        loaded: Record,
    ) -> Result<Self> {
        let name = SwitchName::new(locations.own().as_str())?;
        let concern = PresentConcern::new(&loaded);
        let switch = Switch::new(name.clone()).with_current_copies();
        let switch = match locations.rados() {
            Some(_) => switch.with_chosen_objects(),
            None => switch,
        };
        Ok(Self {
            core: Mutex::new(Core::new(switch, Copies::new(CopySettings::default()))),
            name,
            router: Router::new(locations.rados().is_some()),
            late_changes: locations.rados().map(|_| LateChanges::default()),
            has_homes: AtomicBool::new(false),
            has_bypass: AtomicBool::new(false),
            versions: Versions::default(),
            snapshots: Snapshots::default(),
            updates: Updates::default(),
            erasures: Erasures::default(),
            locations,
            programs,
            clock,
            own,
            random: Mutex::new(Random::from_system()),
            concern,
            next_number: AtomicU64::new(0),
            counts: CountsByTarget::default(),
            transport: OnceLock::new(),
            controller: OnceLock::new(),
            installed: watch::Sender::new(0),
            changes: broadcast::Sender::new(QUEUED_CHANGES),
            loaded,
        })
    }

    /// Opens the switch of a node whose objects are reached by the paths `own`. Reads the record of
    /// the node's rules from there.
    ///
    /// # Errors
    /// The errors of the store; `Corrupt` if the record is malformed.
    pub async fn open(
        own: Onward,
        locations: RoutedLocations,
        programs: RoutePrograms,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let name = SwitchName::new(locations.own().as_str())?;
        let loaded = super::record::load(&own.usual, &locations.record()?, &name).await?;
        Self::new(own, locations, programs, clock, loaded)
    }

    /// Sets the transport by which this switch sends requests to other nodes.
    pub(super) fn reach_nodes_by(&self, transport: Arc<dyn HostTransport>) {
        // Set once, when the node joins.
        let _ = self.transport.set(transport);
    }

    pub(super) fn transport(&self) -> Result<&Arc<dyn HostTransport>> {
        self.transport.get().ok_or_else(not_joined)
    }

    /// Sets how this switch finds the controller.
    pub(super) fn ask_controller_by(&self, link: ControllerLink) {
        // Set once, when the node joins.
        let _ = self.controller.set(link);
    }

    pub(super) fn controller_link(&self) -> Result<&ControllerLink> {
        self.controller.get().ok_or_else(not_joined)
    }

    /// Which node routes the IO that rules concern.
    pub(super) fn router(&self) -> &Router {
        &self.router
    }

    pub(super) fn name(&self) -> &SwitchName {
        &self.name
    }

    pub(super) fn locations(&self) -> &RoutedLocations {
        &self.locations
    }

    pub(super) fn programs(&self) -> &RoutePrograms {
        &self.programs
    }

    /// The path to the node's own objects.
    pub(super) fn base(&self) -> &Stack {
        &self.own.usual
    }

    /// The paths to the node's own objects.
    pub(super) fn own(&self) -> &Onward {
        &self.own
    }

    /// The objects whose IO must go through the switch.
    pub(super) fn concern(&self) -> &PresentConcern {
        &self.concern
    }

    pub(super) fn counts(&self) -> &CountsByTarget {
        &self.counts
    }

    /// Changes whose outcome is unknown. `None` if the engine always says what has happened.
    pub(super) fn late_changes(&self) -> Option<&LateChanges> {
        self.late_changes.as_ref()
    }

    pub(super) fn loaded(&self) -> &Record {
        &self.loaded
    }

    pub(super) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The term of the installed rules; 0 until there are some.
    pub(super) fn term(&self) -> u64 {
        *self.installed.borrow()
    }

    pub(super) fn note_installed(&self, term: Term) {
        {
            let mut core = self.core();
            let core = &mut *core;
            core.tally.begin_rules(core.switch.table());
            core.permitted.note_rules(core.switch.table());
            let mut rules = core.switch.table().rules().map(|(_, rule)| rule);
            let has_homes = rules.any(|rule| rule.header.home.is_some());
            self.has_homes.store(has_homes, Ordering::Relaxed);
            let table = core.switch.table();
            let has =
                |of: fn(&Destination) -> bool| table.rules().any(|(_, rule)| of(&rule.destination));
            let has_bypass = has(|to| matches!(to, Destination::Bypass(_)));
            self.has_bypass.store(has_bypass, Ordering::Relaxed);
            self.versions.note_rules(table);
            self.erasures.note_rules(core.switch.table());
            let kept = SnapshotRules::of(core.switch.table());
            self.snapshots.note_rules(&core.kept, &kept);
            core.kept = kept;
            self.programs.waypoints().note_rules(table);
            let scattering = core.switch.table().rules().map(|(_, rule)| rule);
            let scattering = scattering.filter(is_scattering).map(|rule| &rule.header.object);
            let copied = Matches::of(scattering);
            core.copies.rules_changed(term, |object| copied.contains(object));
            let targets = CopyTargets::of(core.switch.table().rules().map(|(_, rule)| rule));
            core.copies.targets_changed(|object, target| targets.names(object, target));
        }
        self.installed.send_replace(term.0);
    }

    /// Whether an installed rule sends reads past a layer.
    pub(super) fn has_bypass(&self) -> bool {
        self.has_bypass.load(Ordering::Relaxed)
    }

    pub(super) fn versions(&self) -> &Versions {
        &self.versions
    }

    pub(super) fn snapshots(&self) -> &Snapshots {
        &self.snapshots
    }

    /// The updates that are on their way to copies.
    pub(super) fn updates(&self) -> &Updates {
        &self.updates
    }

    /// The erasure-coded objects.
    pub(super) fn erasures(&self) -> &Erasures {
        &self.erasures
    }

    pub(super) fn now_micros(&self) -> u64 {
        self.clock.now_micros()
    }

    /// Requests of clients since the node started.
    pub(super) fn requests(&self) -> u64 {
        self.counts.requests()
    }

    /// The time of the monotonic clock.
    pub(super) fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    pub(super) fn random(&self) -> u64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }

    pub(super) fn number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts an IO of a client, and lets it pass if no rule is about its object.
    pub(super) fn free_pass(&self, header: &IoHeader) -> Option<FreePass> {
        if !header.object.pool.is_own() {
            let locations = self.locations.rados();
            let osd = locations.and_then(|locations| locations.known_primary(&header.object));
            self.counts.note(header, osd, || self.clock.monotonic());
        }
        let concern = self.concern.now();
        // The parts of a large put stay with their object, so no rule concerns them.
        let is_part =
            || nacre::staged_object(&header.object.name).is_some().then(|| concern.pass_by());
        concern.pass(&header.object).or_else(is_part)
    }

    /// The waypoints to which rules send IO on an object.
    pub(super) fn waypoints_of(&self, object: &ObjectId) -> Vec<LayerName> {
        self.concern.now().waypoints_of(object)
    }

    /// Makes all IO on the objects of `record` and of the rules `wanted` go through the switch.
    /// Returns once all IO that bypassed the switch under the former set of objects is done.
    pub(super) async fn look_at(&self, record: &Record, wanted: &[Vec<Rule>]) {
        self.concern.replace(record, wanted).await;
    }

    /// Whether rules are about some object.
    pub(super) fn has_rules(&self) -> bool {
        !self.concern.now().has_no_rules()
    }

    /// Whether a rule lets writes of an object go elsewhere.
    pub(super) fn is_followed(&self, object: &ObjectId) -> bool {
        self.concern.now().is_followed(object)
    }

    /// Whether a rule keeps snapshots of an object.
    pub(super) fn is_kept(&self, object: &ObjectId) -> bool {
        self.concern.now().is_kept(object)
    }

    /// Whether an object is or may be erasure-coded.
    pub(super) fn may_be_erasure_coded(&self, object: &ObjectId) -> bool {
        self.concern.now().may_be_erasure_coded(object)
    }

    /// A pass for an IO on an object without a rule about copies.
    pub(super) fn uncopied(&self, object: &ObjectId) -> Option<FreePass> {
        let concern = self.concern.now();
        (!concern.is_copied(object)).then(|| concern.pass_by())
    }

    /// Runs a request by the rules, without regard to copies. The pass is for a request that the
    /// pure switch does not see.
    ///
    /// Most requests are single reads and writes. All other ways are boxed, because each call moves
    /// the future, and it would be as large as the largest of them.
    pub(super) async fn submit_by_rules(
        self: &Arc<Self>,
        onward: Onward,
        request: Request,
        pass: Option<FreePass>,
    ) -> Result<Reply> {
        let pass = match self.needs_known_versions(&request) {
            true => self.until_versions_are_known(&request, pass).boxed().await,
            false => pass,
        };
        self.check_names(&request)?;
        self.check_kept_names(&request)?;
        let concerns_snapshots = self.concerns_snapshots(&request);
        if concerns_snapshots {
            self.check_kept_as_stored(&request)?;
        }
        if let Some(rule) = self.rule_with_versions(&request) {
            drop(pass);
            return self.change_and_keep(onward.usual, request, rule).boxed().await;
        }
        if concerns_snapshots {
            drop(pass);
            return self.run(onward.usual, request, Some(Span::WHOLE)).await;
        }
        let is_of_bytes = touches_bytes(&request);
        if request.header.snapshot.is_some() && is_of_bytes {
            drop(pass);
            return self.read_snapshot(onward.usual, request).boxed().await;
        }
        // Attributes, keys and snapshots stay at home.
        if !is_of_bytes {
            let reply = onward.usual.submit(request).await;
            drop(pass);
            return reply;
        }
        drop(pass);
        let past_cache = self.rule_past_cache(&request);
        let next = if past_cache.is_some() { onward.past_cache } else { onward.usual };
        let is_single = match request.ops.as_slice() {
            [Op::Stat] => return self.stat(&next, request).boxed().await,
            [read @ Op::Read { .. }, Op::Stat] => {
                let read = read.clone();
                if let Some(rule) = past_cache {
                    self.core().note_decided(rule);
                }
                return self.read_with_stat(next, request, read).boxed().await;
            }
            [Op::Write { data, .. }]
                if !data.is_empty() && self.programs().waypoints().are_used() =>
            {
                return self.write(next, request).boxed().await;
            }
            [Op::Read { .. }] => true,
            [Op::Write { data, .. }] => !data.is_empty(),
            _ => false,
        };
        self.run(next, request, (!is_single).then_some(Span::WHOLE)).await
    }

    pub(super) async fn until_installed(&self) {
        let mut installed = self.installed.subscribe();
        // The sender is a field of this switch, so it exists.
        let _ = installed.wait_for(|term| *term > 0).await;
    }

    /// Gives the switch an order of the controller.
    pub(super) async fn order(self: &Arc<Self>, term: Term, order: Order) -> OrderAnswer {
        let ticket = self.number();
        let (answer, answered) = oneshot::channel();
        self.core().orders.insert(ticket, answer);
        self.handle(Event::Ordered { ticket, term, order });
        answered.await.unwrap_or(OrderAnswer::NotInstalled)
    }

    pub(super) fn tick(self: &Arc<Self>) {
        self.handle(Event::Tick);
    }

    /// Passes an event to the pure switch, and returns the work that follows.
    pub(super) fn step(&self, event: Event) -> Vec<Work> {
        self.core().step(self.clock.monotonic(), event)
    }

    /// Tells watchers of an object that bytes of it have changed elsewhere.
    pub(super) fn tell_change(&self, object: &ObjectId) {
        // `send` fails if there are no watchers; that is no error.
        let _ = self.changes.send(object.clone());
    }

    /// The changes of objects whose bytes lie elsewhere, from now on.
    pub(super) fn routed_changes(&self) -> RoutedChanges {
        RoutedChanges::new(self.changes.subscribe())
    }
}
