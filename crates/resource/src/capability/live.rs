//! `LiveCapabilityPrograms`: the capability programs that are live on a node.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use nacre_capability::{Ask, BestEffort, Holding, Policies, Policy, Verdict};
use nacre_object::{Error, ProgramName, Result};
use nacre_registry::{FaultReporter, ProgramFault, ProgramKind, ProgramSite};

use super::CapabilityProgram;

/// The capability programs that are live on a node, by name. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct LiveCapabilityPrograms(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    programs: RwLock<BTreeMap<ProgramName, Arc<CapabilityProgram>>>,
    reporter: OnceLock<FaultReporter>,
}

impl LiveCapabilityPrograms {
    /// No programs yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Has the faults of programs reported. A second call changes nothing: a process is one node.
    pub fn report_to(&self, reporter: FaultReporter) {
        let _ = self.0.reporter.set(reporter);
    }

    fn get(&self, name: &ProgramName) -> Option<Arc<CapabilityProgram>> {
        self.0.programs.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Makes a program live, in place of another version.
    pub(crate) fn insert(&self, name: ProgramName, program: CapabilityProgram) {
        let mut programs = self.0.programs.write().unwrap_or_else(PoisonError::into_inner);
        programs.insert(name, Arc::new(program));
    }

    /// Drops a program. Best effort decides in its place.
    pub(crate) fn remove(&self, name: &ProgramName) {
        self.0.programs.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    fn report(&self, name: &ProgramName, version: u64, error: &Error) {
        if let Some(reporter) = self.0.reporter.get() {
            let (kind, name, line) = (ProgramKind::Capability, name.clone(), None);
            let site = ProgramSite { kind, name, version, line };
            reporter.report(ProgramFault::new(site, error));
        }
    }
}

impl Policies for LiveCapabilityPrograms {
    fn named(&self, name: &str) -> Arc<dyn Policy> {
        match ProgramName::new(name) {
            Ok(name) => Arc::new(ProgramPolicy { name, live: self.clone() }),
            Err(_) => Arc::new(BestEffort),
        }
    }
}

/// What the live version of a program decides. Where it fails, or none is live, best effort decides instead.
#[derive(Debug)]
struct ProgramPolicy {
    name: ProgramName,
    live: LiveCapabilityPrograms,
}

impl ProgramPolicy {
    fn decide<T>(
        &self,
        decide: impl FnOnce(&CapabilityProgram) -> Result<T>,
        instead: impl FnOnce() -> T,
    ) -> T {
        let Some(program) = self.live.get(&self.name) else { return instead() };
        decide(&program).unwrap_or_else(|error| {
            self.live.report(&self.name, program.version(), &error);
            instead()
        })
    }
}

impl Policy for ProgramPolicy {
    fn grant(&self, ask: &Ask<'_>) -> Verdict {
        self.decide(|program| program.grant(ask), || BestEffort.grant(ask))
    }

    fn keep(&self, holding: &Holding<'_>, ask: &Ask<'_>) -> Duration {
        self.decide(|program| program.keep(holding, ask), || BestEffort.keep(holding, ask))
    }

    fn turn(&self, waiting: &[Ask<'_>]) -> usize {
        self.decide(|program| program.turn(waiting), || BestEffort.turn(waiting))
    }

    fn version(&self) -> u64 {
        self.live.get(&self.name).map_or(0, |program| program.version())
    }
}
