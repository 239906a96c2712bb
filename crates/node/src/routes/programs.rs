//! `RoutePrograms`: the programs that decide where a node's switch sends IO.
//!
//! A new version first becomes live on the node ([`LiveRoutes`]). Then the node's controller lets
//! the rules that name the program use the new version; it treats this as a change of rules. It
//! stores the version's destinations before the version decides anything. IO in flight completes
//! with the old version, which is kept until then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nacre_object::{Error, ProgramName, Result};
use nacre_registry::KindFaults;
use nacre_route::{
    Declared, Destination, Event, IoId, LiveRoutes, NamedPrograms, ProgramAsk, ProgramDecision,
    Programs, RefusedIo, RouteProgram, Rule, Term,
};
use tokio::time::{Instant, sleep};

use super::NodeSwitch;
use super::analysis::KnownPrograms;
use super::control::SHORT_REST;
use super::pieces::PATIENCE;
use super::supported::check_declared;
use super::waypoints::Waypoints;

/// The programs of a node. Clones share everything.
#[derive(Debug, Clone)]
pub struct RoutePrograms {
    live: LiveRoutes,
    faults: KindFaults,
    state: Arc<Mutex<State>>,
    waypoints: Waypoints,
}

#[derive(Debug, Default)]
struct State {
    /// The compiled program versions that installed rules name.
    held: BTreeMap<(ProgramName, u64), Arc<RouteProgram>>,
    counts: BTreeMap<ProgramName, Counts>,
}

/// What a program has done since the node started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// IO that it decided about.
    pub decided: u64,
    /// IO that failed because the program failed.
    pub failed: u64,
    /// The version whose failure was reported to the cluster log last.
    reported: Option<u64>,
}

/// The programs that rules name.
pub(super) fn programs_of(insertions: &[Vec<Rule>]) -> BTreeSet<&ProgramName> {
    insertions.iter().flatten().filter_map(|rule| rule.destination.program()).collect()
}

impl RoutePrograms {
    /// Those that are live on this node.
    pub fn of(live: LiveRoutes, faults: KindFaults) -> Self {
        Self { live, faults, state: Arc::default(), waypoints: Waypoints::default() }
    }

    /// The same programs, and waypoints.
    #[must_use]
    pub fn with_waypoints(self, waypoints: Waypoints) -> Self {
        Self { waypoints, ..self }
    }

    /// The waypoints, which IO passes on its way.
    pub(super) fn waypoints(&self) -> &Waypoints {
        &self.waypoints
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_live(&self, name: &ProgramName) -> bool {
        self.live.get(name.as_str()).is_some()
    }

    /// The live versions of the programs that rules name, with the destinations that they declare.
    /// Keeps these versions loaded. If nodes cannot execute a rule with a program's live version,
    /// the result has the version in `before` instead.
    pub(super) fn declared(&self, insertions: &[Vec<Rule>], before: &Programs) -> Programs {
        let mut programs = Programs::new();
        for name in programs_of(insertions) {
            let declared = self.live_version(name, insertions);
            let declared = declared.or_else(|| before.get(name).cloned());
            programs.extend(declared.map(|declared| (name.clone(), declared)));
        }
        programs
    }

    /// What the live versions of programs declare, for the analysis of rules.
    pub(super) fn declared_now(&self, named: &NamedPrograms) -> KnownPrograms {
        let destinations = |name: &ProgramName| {
            let program = self.live.get(name.as_str())?;
            Some((name.clone(), program.destinations().to_vec()))
        };
        let kind = |name: &ProgramName| Some((name.clone(), self.waypoints.kind(name.as_str())?));
        KnownPrograms {
            destinations: named.routes.iter().filter_map(destinations).collect(),
            waypoints: named.waypoints.iter().filter_map(kind).collect(),
        }
    }

    fn live_version(&self, name: &ProgramName, insertions: &[Vec<Rule>]) -> Option<Declared> {
        let program = self.live.get(name.as_str())?;
        let version = program.version();
        let is_its = |rule: &&Rule| rule.destination == Destination::Program(name.clone());
        let mut rules = insertions.iter().flatten().filter(is_its);
        if let Err(error) = rules.try_for_each(|rule| check_declared(rule, program.destinations()))
        {
            self.report(name, version, &error);
            return None;
        }
        let destinations = program.destinations().to_vec();
        self.state().held.insert((name.clone(), version), program);
        Some(Declared { version, destinations })
    }

    /// Releases all versions that the present rules do not use.
    pub(super) fn keep(&self, programs: &Programs) {
        let is_used = |name: &ProgramName, version: u64| {
            programs.get(name).is_some_and(|declared| declared.version == version)
        };
        self.state().held.retain(|(name, version), _| is_used(name, *version));
    }

    /// A version, if it is on this node.
    pub(super) fn version(&self, name: &ProgramName, version: u64) -> Option<Arc<RouteProgram>> {
        let held = self.state().held.get(&(name.clone(), version)).cloned();
        let live = || self.live.get(name.as_str()).filter(|one| one.version() == version);
        held.or_else(live)
    }

    /// Runs a program to get one decision. Reports the first failure of each version to the cluster
    /// log.
    ///
    /// # Errors
    /// The errors of the program, with its name, version and line.
    pub(super) fn decide(
        &self,
        program: &RouteProgram,
        ask: &ProgramAsk,
    ) -> Result<ProgramDecision> {
        let decided = program.decide(&ask.header, &ask.io);
        {
            let mut state = self.state();
            let counts = state.counts.entry(ask.program.clone()).or_default();
            match &decided {
                Ok(_) => counts.decided += 1,
                Err(_) => counts.failed += 1,
            }
        }
        let decision = decided.inspect_err(|error| {
            self.report(&ask.program, ask.version, error);
        })?;
        Ok(ProgramDecision {
            rule: ask.rule,
            span: ask.io.span,
            destination: decision.destination,
            changes: decision.changes,
        })
    }

    /// Reports a failing version to the cluster log, once.
    fn report(&self, name: &ProgramName, version: u64, error: &Error) {
        let mut state = self.state();
        let counts = state.counts.entry(name.clone()).or_default();
        if counts.reported.replace(version) != Some(version) {
            self.faults.report(name, version, error);
        }
    }

    /// The programs that have decided about IO, with their decisions and failures.
    pub(super) fn all_counts(&self) -> Vec<(ProgramName, u64, u64)> {
        let state = self.state();
        let counts = state.counts.iter();
        counts.map(|(name, counts)| (name.clone(), counts.decided, counts.failed)).collect()
    }

    pub(super) fn counts(&self, name: &ProgramName) -> Counts {
        self.state().counts.get(name).copied().unwrap_or_default()
    }
}

impl NodeSwitch {
    /// Asks programs where the bytes of an IO go, and returns their decisions for the pure switch.
    /// `None` if the rules change meanwhile: the pure switch then plans the IO again by the new
    /// rules.
    pub(super) async fn ask_programs(
        &self,
        io: IoId,
        term: Term,
        asks: Vec<ProgramAsk>,
    ) -> Option<Event> {
        let object = asks.first().map(|ask| ask.io.object.clone())?;
        let mut decisions = vec![];
        let mut decided = Ok(());
        for ask in asks {
            match self.ask_program(term, &ask).await? {
                Ok(decision) => decisions.push(decision),
                Err(error) => {
                    decided = Err(RefusedIo(error));
                    break;
                }
            }
        }
        let decided = decided.map(|()| decisions);
        Some(Event::ProgramsDecided { io, object, term, decided })
    }

    /// Asks one program, once its version is on this node; `None` if the rules change before that.
    async fn ask_program(&self, term: Term, ask: &ProgramAsk) -> Option<Result<ProgramDecision>> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(program) = self.programs().version(&ask.program, ask.version) {
                return Some(self.programs().decide(&program, ask));
            }
            if self.core().switch.installed() != Some(term) {
                return None;
            }
            if Instant::now() >= until {
                let (name, version) = (&ask.program, ask.version);
                let text = format!("version {version} of route/{name} is not on this node");
                return Some(Err(Error::unavailable(text)
                    .hint(format!("see where it is: nacre program status route/{name}"))));
            }
            sleep(SHORT_REST).await;
        }
    }
}
