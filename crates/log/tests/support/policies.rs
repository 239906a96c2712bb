//! Policies by which a sequencer lends its capability in tests.

use std::sync::Arc;
use std::time::Duration;

use nacre_capability::{Ask, BestEffort, Never, Policies, Policy, Terms, Verdict};

/// Operations of one turn.
pub const TURN_OPERATIONS: u64 = 10;
/// How long one turn is at most.
pub const TURN: Duration = Duration::from_millis(50);

/// The policies `turns` and `never`; any other name stands for the default policy.
#[derive(Debug)]
pub struct TestPolicies;

impl Policies for TestPolicies {
    fn named(&self, name: &str) -> Arc<dyn Policy> {
        match name {
            "turns" => Arc::new(GrantsInTurn),
            "never" => Arc::new(Never),
            _ => Arc::new(BestEffort),
        }
    }
}

/// Every client that asks gets a grant of some operations.
#[derive(Debug)]
struct GrantsInTurn;

impl Policy for GrantsInTurn {
    fn grant(&self, _: &Ask<'_>) -> Verdict {
        Verdict::Grant(Terms { operations: Some(TURN_OPERATIONS), hold: Some(TURN) })
    }
}
