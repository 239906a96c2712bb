//! `CapabilityPolicies`: turns the active capability programs of a node into policies.

use std::sync::Arc;
use std::time::Duration;

use nacre_capability::{Ask, BestEffort, Holding, Policies, Policy, Verdict};
use nacre_object::{ProgramName, Result};
use nacre_registry::{FaultReporter, KindFaults, ProgramKind};

use super::{CapabilityProgram, LiveCapabilityPrograms};

/// The policies of a node's active capability programs. Clones share everything.
#[derive(Debug, Clone)]
pub struct CapabilityPolicies {
    live: LiveCapabilityPrograms,
    faults: KindFaults,
}

impl CapabilityPolicies {
    /// The policies of these programs.
    pub fn of(live: LiveCapabilityPrograms) -> Self {
        Self { live, faults: KindFaults::of(ProgramKind::Capability) }
    }

    /// Reports the faults of programs from now on. A second call has no effect, because a process
    /// runs one node.
    pub fn report_to(&self, reporter: FaultReporter) {
        self.faults.report_to(reporter);
    }
}

impl Default for CapabilityPolicies {
    fn default() -> Self {
        Self::of(LiveCapabilityPrograms::default())
    }
}

impl Policies for CapabilityPolicies {
    fn named(&self, name: &str) -> Arc<dyn Policy> {
        match ProgramName::new(name) {
            Ok(name) => Arc::new(ProgramPolicy { name, policies: self.clone() }),
            Err(_) => Arc::new(BestEffort),
        }
    }
}

/// The policy of one program. Its active version decides. If that version fails, or no version is
/// active, [`BestEffort`] decides.
#[derive(Debug)]
struct ProgramPolicy {
    name: ProgramName,
    policies: CapabilityPolicies,
}

impl ProgramPolicy {
    fn program(&self) -> Option<Arc<CapabilityProgram>> {
        self.policies.live.get(self.name.as_str())
    }

    fn decide<T>(
        &self,
        decide: impl FnOnce(&CapabilityProgram) -> Result<T>,
        instead: impl FnOnce() -> T,
    ) -> T {
        let Some(program) = self.program() else { return instead() };
        decide(&program).unwrap_or_else(|error| {
            self.policies.faults.report(&self.name, program.version(), &error);
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
        self.program().map_or(0, |program| program.version())
    }
}
