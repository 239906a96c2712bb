//! The task of a node that runs the control applications while the node is the controller.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use nacre::Cluster;
use nacre_clock::Clock;
use nacre_object::{ApplicationName, Error, ErrorKind, NodeName, Result};
use nacre_registry::{Event, KindFaults, Severity};
use nacre_route::{CacheLoad, ControlProgram, LiveControls, ObjectMatch};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::super::NodeSwitch;
use super::super::service::ROUTE_SERVICE;
use super::super::state::{RouteMap, RouteState, StartedApplication};
use super::super::statistics::StatisticsByTarget;
use super::caches::cache_load;
use super::rates::Snapshot;
use super::report::Reports;
use super::run::{ProgramRun, RunOutcome};
use super::term::{ControllerTerm, States, TermStatus};
use super::waiting::{Waiting, WaitingIos};
use crate::cache::CacheReport;
use crate::lease::LeaseHolder;

/// How often the task checks which programs are due.
const CHECK: Duration = Duration::from_millis(50);
/// How often the task looks at the lease.
const LOOK_AT_LEASE: Duration = Duration::from_millis(500);
/// How long a node may take to say what its switch has counted. A program does not wait longer: the
/// target counts as silent in this run.
const STATISTICS_TIME: Duration = Duration::from_secs(1);
/// How long the cluster log may take to store an event.
const EVENT_TIME: Duration = Duration::from_millis(500);
/// The pause after an error of a map.
const AFTER_FAILURE: Duration = Duration::from_millis(250);

/// What the task works with.
pub(in super::super) struct ApplicationsTask {
    pub switch: Arc<NodeSwitch>,
    pub cluster: Cluster,
    pub node: NodeName,
    pub incarnation: u64,
    pub clock: Arc<dyn Clock>,
    pub programs: LiveControls,
    pub faults: KindFaults,
    pub reports: Arc<Reports>,
    /// The IOs that wait at the controller.
    pub waiting: Arc<WaitingIos>,
    /// What the map `routes` says. The switch may be behind: it waits for IO in flight before it
    /// installs rules.
    pub routes: watch::Receiver<RouteState>,
}

/// What the controller knows of an application.
struct Running {
    started: StartedApplication,
    /// When the program ran last, and what the switches had counted then.
    last: Option<(Duration, Snapshot)>,
    /// The version whose failure was reported to the cluster log last, and the error.
    reported: Option<(u64, String)>,
}

/// Runs the applications whenever the node is the controller, until the task is aborted.
pub(in super::super) async fn run(mut task: ApplicationsTask) {
    let me = LeaseHolder { node: task.node.to_string(), incarnation: task.incarnation };
    let mut controller = ApplicationController {
        term: ControllerTerm::new(task.cluster.maps().clone(), me),
        running: BTreeMap::new(),
        states: States::new(),
        looked: None,
        committed: 0,
    };
    let mut routes = task.routes.borrow_and_update().clone();
    loop {
        let is_idle = routes.started.is_empty() && controller.states.is_empty();
        if is_idle {
            controller.resign(&task);
            if task.routes.changed().await.is_err() {
                return;
            }
        }
        // `changed` has marked the new value as seen.
        if is_idle || task.routes.has_changed().unwrap_or(false) {
            routes = task.routes.borrow_and_update().clone();
            continue;
        }
        match controller.step(&task, &routes).await {
            Ok(()) => sleep(CHECK).await,
            Err(error) => {
                task.reports.note_problem(&error);
                if error.kind() == ErrorKind::Stale {
                    controller.resign(&task);
                }
                sleep(AFTER_FAILURE).await;
            }
        }
    }
}

/// A node that is the controller, or may become it.
struct ApplicationController {
    term: ControllerTerm,
    running: BTreeMap<ApplicationName, Running>,
    states: States,
    /// When the node looked at the lease last, while it is the controller.
    looked: Option<Duration>,
    /// The epoch of the map `routes` in which this node stored rules last.
    committed: u64,
}

impl ApplicationController {
    fn resign(&mut self, task: &ApplicationsTask) {
        self.running.clear();
        self.states.clear();
        self.looked = None;
        task.reports.note_other();
        task.waiting.close();
    }

    /// Looks at the lease, and runs what is due.
    async fn step(&mut self, task: &ApplicationsTask, routes: &RouteState) -> Result<()> {
        let now = task.clock.monotonic();
        if self.looked.is_none_or(|looked| now >= looked + LOOK_AT_LEASE) {
            match self.term.look(&*task.clock, &self.states).await? {
                TermStatus::NotController => {
                    self.resign(task);
                    // Others need not look more often than the holder beats.
                    sleep(LOOK_AT_LEASE).await;
                    return Ok(());
                }
                TermStatus::Begun(states) => {
                    self.running.clear();
                    self.states = states;
                }
                TermStatus::Continues => {}
            }
            self.looked = Some(now);
        }
        if self.adopt(routes) {
            // An application that is started again begins without a state.
            self.term.store(&self.states).await?;
        }
        task.reports.note_controller(self.running.keys());
        task.waiting.open();
        // A program must see the rules that it has made.
        match routes.epoch < self.committed {
            true => Ok(()),
            false => self.run_due(task, routes).await,
        }
    }

    /// Takes over which applications are started. Returns whether it has dropped the state of one
    /// that was stopped.
    fn adopt(&mut self, routes: &RouteState) -> bool {
        self.running.retain(|name, running| routes.started.get(name) == Some(&running.started));
        let states = self.states.len();
        self.states.retain(|name, _| routes.started.contains_key(name));
        for (name, started) in &routes.started {
            let new = || Running { started: started.clone(), last: None, reported: None };
            self.running.entry(name.clone()).or_insert_with(new);
        }
        self.states.len() < states
    }

    async fn run_due(&mut self, task: &ApplicationsTask, routes: &RouteState) -> Result<()> {
        let now = task.clock.monotonic();
        let awaited = task.waiting.applications();
        for name in awaited.iter().filter(|name| !self.running.contains_key(*name)) {
            task.waiting.take(name).into_iter().for_each(|one| one.answer(Err(not_started(name))));
        }
        let is_due = |(name, running): &(&ApplicationName, &Running)| {
            let every = Duration::from_secs_f64(running.started.every_seconds);
            awaited.contains(*name)
                || running.last.as_ref().is_none_or(|(last, _)| now >= *last + every)
        };
        let mut due: Vec<_> = self.running.iter().filter(is_due).collect();
        if due.is_empty() {
            return Ok(());
        }
        // If a program changes rules, the programs after it run at the next check. So the program runs
        // first whose last run is longest ago.
        due.sort_by_key(|(_, running)| running.last.as_ref().map(|(last, _)| *last));
        let due: Vec<_> = due.into_iter().map(|(name, _)| name.clone()).collect();
        let counted = task.counted(routes).await;
        for name in due {
            if routes.epoch >= self.committed {
                self.run(task, routes, &name, &counted).await?;
            }
        }
        Ok(())
    }

    /// Runs one program. Its failure is reported, and is no error of the controller.
    async fn run(
        &mut self,
        task: &ApplicationsTask,
        routes: &RouteState,
        name: &ApplicationName,
        counted: &Snapshot,
    ) -> Result<()> {
        let Some(running) = self.running.get_mut(name) else { return Ok(()) };
        let started = running.started.clone();
        let now = task.clock.monotonic();
        let before = running.last.replace((now, counted.clone()));
        let waiting = task.waiting.take(name);
        let Some(program) = task.programs.get(started.program.as_str()) else {
            let text = format!("control/{} is not live on the controller's node", started.program);
            let error = Error::unavailable(text.clone()).hint("try again");
            task.reports.note(name, |report| report.problem = Some(text));
            waiting.into_iter().for_each(|one| one.answer(Err(error.clone())));
            return Ok(());
        };
        let version = program.version();
        let cache = task.cache_load(routes, &started, &program).await;
        let none = Snapshot::new();
        let due = ProgramRun {
            name,
            started: &started,
            program,
            routes,
            before: before.as_ref().map_or(&none, |(_, snapshot)| snapshot),
            after: counted,
            cache,
            seconds: before.as_ref().map_or(0.0, |(at, _)| now.saturating_sub(*at).as_secs_f64()),
            state: self.states.get(name).cloned().unwrap_or_else(|| serde_json::json!({})),
            waiting: waiting.iter().map(|one| one.io.clone()).collect(),
        };
        let ran = match due.run(task).await {
            Ok(ran) => self.keep(task, routes, (name, &started), ran).await,
            Err(error) => Err(error),
        };
        let failure = ran.as_ref().err().map(ToString::to_string);
        let ran_at_micros = task.clock.now_micros();
        let asked = self.settle(task, routes, waiting, &ran);
        task.reports.note(name, |report| {
            report.program = started.program.to_string();
            report.version = Some(version);
            report.epoch = routes.epoch;
            report.runs += 1;
            report.asked += asked;
            report.ran_at_micros = ran_at_micros;
            report.failures += u64::from(failure.is_some());
            report.problem = failure;
        });
        match ran {
            Err(error) if is_of_the_controller(&error) => Err(error),
            Err(error) => {
                self.report(task, name, version, &error);
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }

    /// Answers the IOs that waited for a run, and returns how many it answered. After a run without
    /// effect, the IOs wait for the next run.
    fn settle(
        &self,
        task: &ApplicationsTask,
        routes: &RouteState,
        waiting: Vec<Waiting>,
        ran: &Result<Kept>,
    ) -> u64 {
        let answer = match ran {
            Ok(Kept::Yes) => Ok(self.committed.max(routes.epoch)),
            Err(error) if !is_of_the_controller(error) => Err(error.clone()),
            Ok(Kept::Outdated) | Err(_) => {
                task.waiting.put_back(waiting);
                return 0;
            }
        };
        let count = waiting.len() as u64;
        waiting.into_iter().for_each(|one| one.answer(answer.clone()));
        count
    }

    /// Reports a failure to the cluster log, unless the same version has just failed in the same
    /// way.
    fn report(
        &mut self,
        task: &ApplicationsTask,
        name: &ApplicationName,
        version: u64,
        error: &Error,
    ) {
        let Some(running) = self.running.get_mut(name) else { return };
        let failure = (version, error.message().to_owned());
        if running.reported.as_ref() != Some(&failure) {
            task.faults.report(&running.started.program, version, error);
            running.reported = Some(failure);
        }
    }

    /// Commits the rules of a run, then keeps its state. If the controller dies between the two,
    /// the next run gets the former state with the new rules. If somebody has changed rules since the
    /// new rules were analysed, this function keeps nothing, and the next run decides again.
    async fn keep(
        &mut self,
        task: &ApplicationsTask,
        routes: &RouteState,
        (name, started): (&ApplicationName, &StartedApplication),
        ran: RunOutcome,
    ) -> Result<Kept> {
        let is_changed = ran.changed.is_some() || ran.shares.is_some();
        if is_changed {
            let map = RouteMap::new(task.cluster.maps().clone());
            let (application, shares) = (ran.changed, ran.shares);
            let me = self.term.me();
            let put = map.put_controlled(me, (name, started), application, shares, routes);
            let Some(epoch) = put.await? else { return Ok(Kept::Outdated) };
            self.committed = epoch;
        }
        self.states.insert(name.clone(), ran.state);
        for text in &ran.told {
            task.tell(format!("{name}: {text}")).await;
        }
        task.reports.note(name, |report| {
            report.rules = ran.rules;
            report.changes += u64::from(is_changed);
            report.told.extend(ran.told);
        });
        if is_changed {
            self.term.store(&self.states).await?;
        }
        Ok(Kept::Yes)
    }
}

/// Whether a run has an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    Yes,
    /// Somebody has changed rules since the new ones were analysed.
    Outdated,
}

fn not_started(name: &ApplicationName) -> Error {
    Error::unavailable(format!("no program makes the rules of the application {name}"))
        .hint(format!("start it: nacre route start {name}"))
}

/// Whether the error says nothing about the program: a map does not answer, or another node is the
/// controller.
fn is_of_the_controller(error: &Error) -> bool {
    let kinds = [ErrorKind::Unavailable, ErrorKind::Stale, ErrorKind::Conflict];
    kinds.contains(&error.kind()) && error.fault().is_none()
}

impl ApplicationsTask {
    /// What the switches of all targets have counted. Nodes that do not answer are left out.
    async fn counted(&self, routes: &RouteState) -> Snapshot {
        let mut objects: Vec<ObjectMatch> = vec![];
        for started in routes.started.values() {
            let program = self.programs.get(started.program.as_str());
            let of_program = program.and_then(|one| one.objects(&started.settings).ok());
            for one in of_program.unwrap_or_default() {
                if !objects.contains(&one) {
                    objects.push(one);
                }
            }
        }
        let objects: Vec<_> = objects.iter().map(ToString::to_string).collect();
        let nodes = self.nodes();
        let asked = nodes.iter().map(|node| {
            let objects = &objects;
            async move { Some((node.clone(), self.statistics(node, objects).await.ok()?)) }
        });
        join_all(asked).await.into_iter().flatten().collect()
    }

    /// The nodes with a switch.
    fn nodes(&self) -> Vec<NodeName> {
        match self.switch.locations().rados() {
            Some(_) => self.switch.router().gateways(),
            None => self.switch.locations().nodes().values().cloned().collect(),
        }
    }

    async fn statistics(&self, node: &NodeName, objects: &[String]) -> Result<StatisticsByTarget> {
        let input =
            serde_json::to_vec(objects).map_err(|cause| Error::invalid(cause.to_string()))?;
        let transport = self.switch.transport()?;
        let answer =
            transport.ask(node, ROUTE_SERVICE, "statistics", input.into(), STATISTICS_TIME).await?;
        serde_json::from_slice(&answer).map_err(|cause| {
            Error::corrupt(format!("the statistics of {node} make no sense: {cause}"))
                .hint("run one release of nacre on all nodes")
        })
    }

    /// The caches of the nodes, for a program that wants them. `None` if nothing is cached, or if no
    /// node answers.
    async fn cache_load(
        &self,
        routes: &RouteState,
        started: &StartedApplication,
        program: &ControlProgram,
    ) -> Option<CacheLoad> {
        let settings = routes.caches.as_ref()?;
        if !program.wants_caches(&started.settings) {
            return None;
        }
        let transport = self.switch.transport().ok()?;
        let nodes = self.nodes();
        let asked = nodes.iter().map(|node| async move {
            let input = Bytes::new();
            let asked = transport.ask(node, ROUTE_SERVICE, "caches", input, STATISTICS_TIME);
            serde_json::from_slice::<CacheReport>(&asked.await.ok()?).ok()
        });
        let reports: Vec<_> = join_all(asked).await.into_iter().flatten().collect();
        cache_load(settings, &reports).ok().filter(|_| !reports.is_empty())
    }

    async fn tell(&self, text: String) {
        let event = Event { node: Some(self.node.clone()), ..Event::new(Severity::Info, text) };
        // If the event is lost, the rules still show what happened. The node that keeps the cluster
        // log may be down; programs do not wait for it.
        let _ = timeout(EVENT_TIME, self.cluster.events().append(event)).await;
    }
}
