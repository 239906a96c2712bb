//! Waypoints of a node: programs through which rules send IO of the node's objects.
//!
//! 1. [`holding`]: before an IO goes to a waypoint, the waypoint must admit it. One that holds IO
//!    has a queue. The IO is not in flight meanwhile, so rules can change.
//! 2. [`passing`]: the waypoint gets the IO, re-encodes it if it is such a waypoint, and returns it
//!    to the switch as new IO from its layer. The reply comes back the same way.
//! 3. [`contents`]: what is known of the bytes of objects that pass re-encoding waypoints.
//! 4. [`refusals`]: requests that must not bypass a re-encoding waypoint.
//!
//! # Invariants
//!
//! - While an IO is at a waypoint or behind it, it is in flight at the switch. So no other IO on the
//!   same bytes, and no change of the rules about it, comes between.
//! - An object has the mark of the code that encodes its bytes before the first encoded bytes are
//!   stored, or with them.
//! - The code that encodes and the code that decodes are the same: if the live version is another
//!   than the mark says, the IO fails.

mod contents;
mod holding;
mod passing;
mod refusals;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nacre_object::{Error, LayerName, ObjectId, ProgramName, Result};
use nacre_registry::{KindFaults, ProgramKind};
use nacre_route::{Destination, LiveWaypoints, Rule, RuleTable, WaypointKind, WaypointProgram};
use tokio::time::{Instant, sleep};

use self::contents::Contents;
use self::holding::Held;
use super::control::SHORT_REST;
use super::pieces::PATIENCE;
use super::report::AppliedWaypoint;

/// How many waypoints are counted each for itself. Their names come from rules, so more are rare.
const MAX_COUNTED: usize = 256;

/// The waypoints of a node. Clones share everything.
#[derive(Debug, Clone)]
pub struct Waypoints {
    live: LiveWaypoints,
    faults: KindFaults,
    /// Whether an installed rule sends IO to a waypoint.
    are_used: Arc<AtomicBool>,
    state: Arc<Mutex<State>>,
    contents: Arc<Mutex<Contents>>,
}

#[derive(Debug, Default)]
struct State {
    counts: BTreeMap<LayerName, Counts>,
    /// The queues of waypoints that hold IO.
    queues: BTreeMap<LayerName, Held>,
}

/// What a waypoint has done since the node started.
#[derive(Debug, Default)]
struct Counts {
    /// IO that has passed it.
    passed: u64,
    /// IO that it has refused: because its queue was full, or because of what the IO would do.
    refused: u64,
    /// IO that failed because the program failed.
    faults: u64,
    /// The version whose faults were reported to the cluster log last, and their lines.
    reported: (u64, BTreeSet<Option<u32>>),
}

impl Default for Waypoints {
    fn default() -> Self {
        Self::of(LiveWaypoints::new(), KindFaults::of(ProgramKind::Waypoint))
    }
}

impl Waypoints {
    /// Those that are live on this node.
    pub fn of(live: LiveWaypoints, faults: KindFaults) -> Self {
        let (are_used, state, contents) = (Arc::default(), Arc::default(), Arc::default());
        Self { live, faults, are_used, state, contents }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an installed rule sends IO to a waypoint.
    pub(super) fn are_used(&self) -> bool {
        self.are_used.load(Ordering::Relaxed)
    }

    /// The switch has these rules from now on. IO that waits at a waypoint without a rule goes on
    /// without it.
    pub(super) fn note_rules(&self, table: &RuleTable) {
        let named: BTreeSet<&LayerName> = table
            .rules()
            .filter_map(|(_, rule)| match &rule.destination {
                Destination::Waypoint(layer) => Some(layer),
                _ => None,
            })
            .collect();
        self.are_used.store(!named.is_empty(), Ordering::Relaxed);
        self.state().queues.retain(|layer, _| named.contains(layer));
        // Without a rule, IO does not pass here, so what is known becomes wrong.
        self.contents().clear();
    }

    /// Forgets what is known of an object, because a request changes it that has it for itself.
    pub(super) fn forget(&self, object: &ObjectId) {
        if self.are_used() {
            self.contents().forget(object);
        }
    }

    /// What the live version of a waypoint does; `None` if none is live.
    pub(super) fn kind(&self, name: &str) -> Option<WaypointKind> {
        self.live.get(name).map(|program| program.kind())
    }

    /// A waypoint with its live version, for people.
    pub(super) fn shown(&self, layer: &LayerName) -> String {
        match self.live.get(layer.as_str()) {
            Some(program) => format!("{layer}@{}", program.version()),
            None => format!("{layer}, which is not live"),
        }
    }

    /// A waypoint that rules name and that is not live on this node.
    pub(super) fn missing(&self, insertions: &[Vec<Rule>]) -> Option<String> {
        let mut named = insertions.iter().flatten().filter_map(|rule| match &rule.destination {
            Destination::Waypoint(layer) => Some(layer),
            _ => None,
        });
        let missing = named.find(|layer| self.live.get(layer.as_str()).is_none());
        missing.map(|layer| format!("waypoint/{layer}"))
    }

    /// The live version of a waypoint. An active program may not have come to this node yet, so this
    /// waits for it.
    ///
    /// # Errors
    /// `Unavailable` if the program does not come.
    async fn until_live(&self, layer: &LayerName) -> Result<Arc<WaypointProgram>> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(program) = self.live.get(layer.as_str()) {
                return Ok(program);
            }
            if Instant::now() >= until {
                let text = format!("the program waypoint/{layer} is not live on this node");
                return Err(Error::unavailable(text)
                    .hint(format!("see why: nacre program status waypoint/{layer}")));
            }
            sleep(SHORT_REST).await;
        }
    }

    /// Counts an IO that has passed.
    fn note_passed(&self, layer: &LayerName) {
        self.counted(layer, |counts| counts.passed += 1);
    }

    /// Counts an IO that the waypoint itself has failed, and reports a fault to the cluster log: once
    /// for each version and line.
    fn note_refused(&self, layer: &LayerName, version: u64, error: &Error) {
        let Some(site) = error.fault() else {
            return self.counted(layer, |counts| counts.refused += 1);
        };
        let mut is_new = false;
        self.counted(layer, |counts| {
            counts.faults += 1;
            if counts.reported.0 != version {
                counts.reported = (version, BTreeSet::new());
            }
            is_new = counts.reported.1.insert(site.line);
        });
        if let (true, Ok(name)) = (is_new, ProgramName::new(layer.as_str())) {
            self.faults.report(&name, version, error);
        }
    }

    fn counted(&self, layer: &LayerName, count: impl FnOnce(&mut Counts)) {
        let mut state = self.state();
        if state.counts.contains_key(layer) || state.counts.len() < MAX_COUNTED {
            count(state.counts.entry(layer.clone()).or_default());
        }
    }

    /// What the waypoints have done: those that rules name, and those that have done anything.
    pub(super) fn report(&self, table: &RuleTable) -> Vec<AppliedWaypoint> {
        let named = table.rules().filter_map(|(_, rule)| match &rule.destination {
            Destination::Waypoint(layer) => Some(layer.clone()),
            _ => None,
        });
        let state = self.state();
        let all: BTreeSet<LayerName> = named.chain(state.counts.keys().cloned()).collect();
        let none = Counts::default();
        let report = |layer: LayerName| {
            let counts = state.counts.get(&layer).unwrap_or(&none);
            AppliedWaypoint {
                version: self.live.get(layer.as_str()).map_or(0, |program| program.version()),
                passed: counts.passed,
                waiting: state.queues.get(&layer).map_or(0, Held::len),
                refused: counts.refused,
                faults: counts.faults,
                name: layer.to_string(),
            }
        };
        all.into_iter().map(report).collect()
    }
}
