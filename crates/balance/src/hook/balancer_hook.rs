//! Balancer policies as one kind of program.

use std::sync::Arc;

use nacre_clock::Clock;
use nacre_object::Result;
use nacre_program::Interface;
use nacre_registry::{CompiledHook, CompiledProgram, LivePrograms, ProgramKind, SourceError};

use super::BALANCER_INTERFACE;
use crate::Policy;

/// The hook of balancer policies: which units of load move to which rank.
pub type BalancerHook = CompiledHook<Policy>;
/// The policies that are live on a node, by name.
pub type LivePolicies = LivePrograms<Policy>;

impl CompiledProgram for Policy {
    const KIND: ProgramKind = ProgramKind::Balancer;
    const INTERFACE: &'static Interface = &BALANCER_INTERFACE;

    fn compile_and_try(
        name: &str,
        version: u64,
        source: Arc<str>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self> {
        let policy = Self::compile(name, version, &source)?;
        policy.rehearse(clock)?;
        Ok(policy)
    }

    fn suspicions(source: &str) -> Vec<SourceError> {
        Self::compile("program", 0, source).map_or(vec![], |policy| policy.suspicions())
    }
}
