//! Drives the pure `Controller` of crate `route`, which gives this node's switch its rules.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nacre_object::{Error, NodeName, ProgramName, Result};
use nacre_route::{
    Controller, ControllerCommand, ControllerEvent, Destination, Followed, Found, Order,
    OrderAnswer, Placed, Placement, Programs, Record, Rule, Span, Stamp, Stored, Term, Wanted,
    newest,
};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::NodeSwitch;
use super::gateways::Gateways;
use super::in_force::InForce;
use super::kept_bytes::{FoundAsk, FoundPage};
use super::programs::programs_of;
use super::record;
use super::service::ROUTE_SERVICE;
use super::state::RouteState;

/// The time between two checks for an event that is about to happen.
pub(super) const SHORT_REST: Duration = Duration::from_millis(5);
/// How often the controller sends the switch a tick.
const TICK: Duration = Duration::from_millis(100);
/// How long the node waits before it tries a failed step again.
const READ_AGAIN: Duration = Duration::from_millis(250);
/// How often the node checks whether all bytes are home.
const SETTLED_CHECK: Duration = Duration::from_millis(500);
/// How often the node checks whether a program that its rules name has a new live version.
const PROGRAM_CHECK: Duration = Duration::from_millis(50);
/// How long the node waits for the programs that new rules name. An active program normally reaches
/// every node in much less time.
const PROGRAM_PATIENCE: Duration = Duration::from_secs(5);
/// How long a node may take to answer with one page of the spans it keeps.
const FOUND_TIME: Duration = Duration::from_secs(10);

/// Sends the switch ticks, so that it notices timeouts, until the task is aborted.
pub(super) async fn tick(switch: Arc<NodeSwitch>) {
    loop {
        sleep(TICK).await;
        if switch.term() > 0 {
            switch.tick();
        }
    }
}

/// Installs the rules of the map `routes` in the node's switch each time that it changes, until the
/// task is aborted. A gateway to Ceph does so once it is the router.
pub(super) async fn run(
    switch: Arc<NodeSwitch>,
    mut states: watch::Receiver<RouteState>,
    in_force: Arc<InForce>,
    gateways: Option<Arc<Gateways>>,
) {
    let loaded = match &gateways {
        None => switch.loaded().clone(),
        Some(gateways) => {
            switch.router().until_this().await;
            stored_record(gateways, &in_force).await
        }
    };
    let is_new = loaded.term == Term::default();
    let mut control =
        Control { switch, in_force, gateways, loaded, controller: None, installed: None };
    // Until the node has read the map, it has its former rules. So IO goes on while the node that
    // keeps the map is down.
    if !is_new {
        control.start().await;
    }
    if states.changed().await.is_err() {
        return;
    }
    let mut is_due = true;
    loop {
        if is_due {
            let state = states.borrow_and_update().clone();
            if let Err(error) = control.follow(&state).await {
                control.in_force.note_problem(&error);
                sleep(READ_AGAIN).await;
                continue;
            }
        }
        let patience = if control.names_programs() { PROGRAM_CHECK } else { SETTLED_CHECK };
        is_due = match timeout(patience, states.changed()).await {
            Ok(Ok(())) => true,
            // The node stops.
            Ok(Err(_)) => return,
            Err(_) => false,
        };
        if !is_due {
            control.settle().await;
            control.follow_programs().await;
        }
    }
}

/// The record that the router before this one has stored.
async fn stored_record(gateways: &Gateways, in_force: &InForce) -> Record {
    loop {
        match gateways.record().await {
            Ok(record) => return record,
            Err(error) => {
                in_force.note_problem(&error);
                sleep(READ_AGAIN).await;
            }
        }
    }
}

impl NodeSwitch {
    /// Installs rules in a switch of a node that has not joined a cluster. On a node in a cluster,
    /// the rules in the map soon replace them.
    ///
    /// # Errors
    /// `Exhausted` if there are too many rules; an error of the store that keeps the record of
    /// rules.
    pub async fn install(self: &Arc<Self>, insertions: Vec<Vec<Rule>>) -> Result<()> {
        let switch = Arc::clone(self);
        let in_force = Arc::new(InForce::new(switch.name().to_string()));
        let loaded = switch.loaded().clone();
        let (gateways, controller, installed) = (None, None, None);
        let mut control = Control { switch, in_force, gateways, loaded, controller, installed };
        control.apply(insertions).await
    }
}

struct Control {
    switch: Arc<NodeSwitch>,
    in_force: Arc<InForce>,
    /// The other gateways, if this node is one.
    gateways: Option<Arc<Gateways>>,
    /// The record as it was stored before this controller.
    loaded: Record,
    /// The controller; `None` until the node has rules.
    controller: Option<Controller>,
    /// The epoch whose rules are installed; `None` while those of the latest epoch are not.
    installed: Option<u64>,
}

impl Control {
    /// Installs the stored rules, after a start.
    async fn start(&mut self) {
        let (mut controller, commands) = Controller::new();
        self.pursue(&mut controller, commands).await;
        // A gateway that becomes the router knows only which IO to forward.
        self.switch.look_at(controller.record(), &[]).await;
        self.controller = Some(controller);
    }

    /// The rules that the switch has, or will have next.
    fn insertions(&self) -> Vec<Vec<Rule>> {
        let record = self.controller.as_ref().map(Controller::record);
        let rules = record.and_then(|record| record.wanted.rules.get(self.switch.name()));
        rules.cloned().unwrap_or_default()
    }

    fn names_programs(&self) -> bool {
        let insertions = self.insertions();
        let passes = |rule: &Rule| matches!(rule.destination, Destination::Waypoint(_));
        !programs_of(&insertions).is_empty() || insertions.iter().flatten().any(passes)
    }

    /// Waits a moment for programs that are new to this node.
    async fn until_live(&self, insertions: &[Vec<Rule>]) {
        let named = programs_of(insertions);
        let is_live = || {
            named.iter().all(|name| self.switch.programs().is_live(name))
                && self.switch.programs().waypoints().missing(insertions).is_none()
        };
        let all_live = async {
            while !is_live() {
                sleep(PROGRAM_CHECK).await;
            }
        };
        let _ = timeout(PROGRAM_PATIENCE, all_live).await;
    }

    /// Installs the rules of an epoch of the map.
    ///
    /// # Errors
    /// Says why the gateways do not agree on this epoch yet; try again. Other failures are noted,
    /// and the former rules stay.
    async fn follow(&mut self, state: &RouteState) -> Result<()> {
        self.installed = None;
        let insertions = match &self.gateways {
            None => state.insertions(self.switch.locations().own()),
            Some(gateways) => {
                gateways.agree(state.epoch).await?;
                state.insertions_by_home()
            }
        };
        let applied = match insertions {
            Ok(insertions) => {
                self.until_live(&insertions).await;
                self.apply(insertions).await
            }
            Err(error) => Err(error),
        };
        self.installed = applied.is_ok().then_some(state.epoch);
        if let Some(gateways) = &self.gateways {
            // The other gateways forward the IO of cached pools until they hear of the epoch below.
            self.in_force.note_caches(gateways.apply_caches(state));
        }
        if let (Some(gateways), Some(epoch)) = (&self.gateways, self.installed) {
            gateways.note_applied(epoch).await?;
        }
        self.note(applied);
        Ok(())
    }

    /// Records how an update ended. Installed rules are in force once this node has all programs
    /// that they name.
    fn note(&self, updated: Result<()>) {
        if let Err(error) = updated {
            return self.in_force.note_problem(&error);
        }
        let Some(epoch) = self.installed else { return };
        match self.missing_program() {
            None => self.in_force.note_rules(epoch),
            Some(program) => {
                let text = format!("no version of {program} that fits the rules is on this node");
                self.in_force.note_problem(&Error::unavailable(text));
            }
        }
    }

    /// A program that rules name although no version of it decides.
    fn missing_program(&self) -> Option<String> {
        let insertions = self.insertions();
        let record = self.controller.as_ref().map(Controller::record);
        let is_declared = |name: &&ProgramName| {
            record.is_some_and(|record| record.wanted.programs.contains_key(*name))
        };
        let missing = programs_of(&insertions).into_iter().find(|name| !is_declared(name));
        let waypoint = || self.switch.programs().waypoints().missing(&insertions);
        missing.map(|name| format!("route/{name}")).or_else(waypoint)
    }

    /// Makes the switch use the versions that are live now.
    async fn follow_programs(&mut self) {
        if !self.names_programs() {
            return;
        }
        let applied = self.apply(self.insertions()).await;
        self.note(applied);
    }

    /// Installs these rules in the switch, with the live versions of their programs.
    ///
    /// # Errors
    /// `Exhausted` if the rules do not fit into the switch. The former rules stay in force.
    async fn apply(&mut self, insertions: Vec<Vec<Rule>>) -> Result<()> {
        let name = self.switch.name().clone();
        let before =
            self.controller.as_ref().map(|controller| &controller.record().wanted.programs);
        let none = Programs::new();
        let programs = self.switch.programs().declared(&insertions, before.unwrap_or(&none));
        let is_known = |controller: &Controller| {
            let wanted = &controller.record().wanted;
            wanted.programs == programs
                && wanted.rules.get(&name).is_some_and(|rules| *rules == insertions)
        };
        match &self.controller {
            Some(controller) if is_known(controller) => return Ok(()),
            None if insertions.is_empty() => return Ok(()),
            Some(_) => {}
            None => {
                self.start().await;
                // A switch that never had rules has sent no bytes to other nodes. Give it an empty
                // set of rules first: then it need not ask other nodes for bytes when it gets its
                // rules.
                let rules = [(name.clone(), vec![])].into();
                self.begin(Wanted { rules, ..Wanted::default() }).await?;
            }
        }
        let rules = [(name, insertions)].into();
        self.begin(Wanted { rules, programs, ..Wanted::default() }).await
    }

    /// Lets IO pass again on objects without rules, once all their bytes are home.
    async fn settle(&mut self) {
        let Some(controller) = &self.controller else { return };
        let record = controller.record();
        if record.followed.is_empty() {
            return;
        }
        let rules = record.wanted.rules.values().flatten().flatten();
        let following = rules.filter(|rule| rule.moves_bytes());
        // A rule of the one kind says nothing about bytes that one of the other kind has moved.
        let kind = |to: &Destination| to.is_erasure();
        let following: HashSet<_> =
            following.map(|rule| (&rule.header.object, kind(&rule.destination))).collect();
        let is_left = |one: &&Followed| !following.contains(&(&one.object, kind(&one.destination)));
        let left: Vec<_> = record.followed.iter().filter(is_left).collect();
        if left.is_empty() || !self.switch.is_all_home() {
            return;
        }
        let (rules, programs) = (record.wanted.rules.clone(), record.wanted.programs.clone());
        let settled = left.into_iter().map(|one| one.object.clone()).collect();
        let begun = self.begin(Wanted { rules, programs, settled, ..Wanted::default() }).await;
        self.note(begun);
    }

    async fn begin(&mut self, wanted: Wanted) -> Result<()> {
        let Some(mut controller) = self.controller.take() else { return Ok(()) };
        let insertions: Vec<_> = wanted.rules.values().flatten().cloned().collect();
        // IO that passed the switch must be done before IO on the same objects goes elsewhere.
        self.switch.look_at(controller.record(), &insertions).await;
        let begun = match controller.begin(wanted) {
            Ok(commands) => {
                self.pursue(&mut controller, commands).await;
                Ok(())
            }
            Err(error) => Err(error),
        };
        self.switch.look_at(controller.record(), &[]).await;
        self.switch.programs().keep(&controller.record().wanted.programs);
        self.controller = Some(controller);
        begun
    }

    /// Carries out the controller's commands, until the rules are installed.
    async fn pursue(&self, controller: &mut Controller, commands: Vec<ControllerCommand>) {
        let mut commands = VecDeque::from(commands);
        while let Some(command) = commands.pop_front() {
            let event = match command {
                ControllerCommand::Load => ControllerEvent::Loaded(self.loaded()),
                ControllerCommand::Store { record, .. } => {
                    self.store(&record).await;
                    ControllerEvent::Stored { term: record.term, outcome: Stored::Yes }
                }
                ControllerCommand::Order { switch, term, order } => {
                    let answer = self.switch.order(term, order.clone()).await;
                    if matches!((&order, answer), (Order::Install(_), OrderAnswer::Done)) {
                        // The term must be set before IO goes on, because sent pieces carry it.
                        self.switch.note_installed(term);
                    }
                    ControllerEvent::Answered { term, switch, order, answer }
                }
                ControllerCommand::Gather { term, followed, .. } => {
                    let placed = self.gather(term, &followed).await;
                    ControllerEvent::Gathered { term, placed }
                }
                ControllerCommand::Updated(_) => continue,
                // There is no other controller of this switch.
                ControllerCommand::Deposed => return,
            };
            commands.extend(controller.handle(event));
        }
    }

    /// The stored record, with the versions of programs that are live by now.
    fn loaded(&self) -> Record {
        let record = self.loaded.clone();
        let insertions: Vec<_> = record.wanted.rules.values().flatten().cloned().collect();
        let programs = self.switch.programs().declared(&insertions, &record.wanted.programs);
        record.with_programs(programs)
    }

    /// Stores the record durably, however often that takes.
    async fn store(&self, record: &nacre_route::Record) {
        let switch = &self.switch;
        loop {
            let stored = async {
                let object = switch.locations().record()?;
                record::store(switch.base(), &object, switch.name(), record).await
            };
            match stored.await {
                Ok(()) => return,
                Err(error) => {
                    self.in_force.note_problem(&error);
                    sleep(READ_AGAIN).await;
                }
            }
        }
    }

    /// Finds out which nodes have the newest bytes. A switch that already has rules knows this. A
    /// switch that has just started asks the nodes that may keep bytes, and waits until all of them
    /// have answered.
    async fn gather(&self, term: Term, followed: &[Followed]) -> Vec<Placed> {
        let known = {
            let core = self.switch.core();
            core.switch.installed().map(|_| {
                let placed = core.table().all_placed();
                let placed = placed.map(|(object, rule)| Placed {
                    object: object.clone(),
                    placement: Placement {
                        span: rule.header.span,
                        destination: rule.destination.clone(),
                        application: rule.application.clone(),
                    },
                });
                placed.collect()
            })
        };
        if let Some(known) = known {
            return known;
        }
        let mut keepers: Vec<NodeName> = vec![];
        for one in followed {
            keepers.extend(self.switch.locations().keepers(&one.destination));
        }
        keepers.sort();
        keepers.dedup();
        let mut found = vec![];
        for node in keepers {
            found.extend(loop {
                match self.found(&node, term).await {
                    Ok(found) => break found,
                    Err(_) => sleep(READ_AGAIN).await,
                }
            });
        }
        newest(found)
    }

    async fn found(&self, node: &NodeName, term: Term) -> Result<Vec<Found>> {
        let locations = self.switch.locations();
        let (mut all, mut after) = (vec![], None);
        loop {
            let page = self.found_page(node, term, after).await?;
            for kept in page.objects {
                let Some(destination) = locations.destination(&kept.object.parse()?) else {
                    continue;
                };
                for (start, end, counter) in kept.spans {
                    let Some(span) = Span::new(start, end) else { continue };
                    all.push(Found {
                        object: kept.home.parse()?,
                        span,
                        stamp: Stamp { counter, switch: self.switch.name().clone() },
                        destination: destination.clone(),
                        application: kept.application.parse()?,
                    });
                }
            }
            after = page.next;
            if after.is_none() {
                return Ok(all);
            }
        }
    }

    async fn found_page(
        &self,
        node: &NodeName,
        term: Term,
        after: Option<String>,
    ) -> Result<FoundPage> {
        let home_target = self.switch.locations().own().to_string();
        if self.switch.locations().rados().is_some() {
            return self.switch.kept_for(&home_target, after.as_ref()).await;
        }
        let ask = FoundAsk { home_target, term: term.0, after };
        let input = Bytes::from(serde_json::to_vec(&ask).map_err(senseless)?);
        let transport = self.switch.transport()?;
        let answer = transport.ask(node, ROUTE_SERVICE, "found", input, FOUND_TIME).await?;
        serde_json::from_slice(&answer).map_err(senseless)
    }
}

fn senseless(cause: serde_json::Error) -> nacre_object::Error {
    nacre_object::Error::corrupt(format!("a node's list of routed bytes is malformed: {cause}"))
}
