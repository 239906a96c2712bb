//! `BalancerHook`: balancer policies as one kind of program.

use std::sync::Arc;

use nacre_clock::Clock;
use nacre_object::{Error, Result};
use nacre_program::Interface;
use nacre_registry::{Hook, LiveProgram, ProgramId, ProgramKind, SourceError};

use super::{BALANCER_INTERFACE, LivePolicies};
use crate::Policy;

/// Balancer policies: which units of load move to which rank.
#[derive(Debug)]
pub struct BalancerHook {
    clock: Arc<dyn Clock>,
    live: Option<LivePolicies>,
}

impl BalancerHook {
    /// The hook of a process that checks policies and runs none.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, live: None }
    }

    /// The hook of a process that runs policies.
    #[must_use]
    pub fn installing_into(self, live: LivePolicies) -> Self {
        Self { live: Some(live), ..self }
    }

    fn tried(&self, name: &str, version: u64, source: &str) -> Result<Policy> {
        let policy = Policy::compile(name, version, source)?;
        policy.rehearse(&self.clock)?;
        Ok(policy)
    }
}

impl Hook for BalancerHook {
    fn kind(&self) -> ProgramKind {
        ProgramKind::Balancer
    }

    fn interface(&self) -> &'static Interface {
        &BALANCER_INTERFACE
    }

    fn check(&self, program: &ProgramId, source: &str) -> Result<(), SourceError> {
        self.tried(&program.to_string(), 0, source)?;
        Ok(())
    }

    fn suspicions(&self, source: &str) -> Vec<SourceError> {
        Policy::compile("program", 0, source).map_or(vec![], |policy| policy.suspicions())
    }

    fn install(&self, program: &LiveProgram) -> Result<()> {
        let live = self
            .live
            .as_ref()
            .ok_or_else(|| Error::unsupported("this process runs no balancer policies"))?;
        let name = program.id.to_string();
        let policy = self.tried(&name, program.version, &program.source)?;
        live.insert(program.id.name.as_str(), policy);
        Ok(())
    }

    fn uninstall(&self, program: &ProgramId) -> Result<()> {
        if let Some(live) = &self.live {
            live.remove(program.name.as_str());
        }
        Ok(())
    }
}
