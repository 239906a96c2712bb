//! Short ways to make policies and ticks.

#![allow(dead_code, reason = "each test file uses some of it")]

use std::sync::Arc;

use nacre_balance::{Decision, Inputs, Policy, RankLoad, State, Unit, UnitRates};
use nacre_clock::{Clock, ManualClock};
use nacre_object::Error;

/// The directory fragments of Mantle, section 3.3.
pub const FRAGMENTS: [f64; 8] = [12.7, 13.3, 13.3, 14.6, 15.7, 13.5, 13.7, 14.6];

/// A clock that stands still.
pub fn clock() -> Arc<dyn Clock> {
    Arc::new(ManualClock::default())
}

/// A policy that compiles.
pub fn policy(source: &str) -> Policy {
    Policy::compile("balancer/test", 7, source).unwrap_or_else(|error| panic!("{error}"))
}

/// A rank with a load, all of which is its own.
pub fn rank(load: f64) -> RankLoad {
    RankLoad { auth: load, all: load, ..RankLoad::default() }
}

/// The inputs of rank `whoami` at a tick. `loads` are the loads of the ranks; `units` are the loads
/// of this rank's sequencers `u1`, `u2` and so on.
pub fn tick(whoami: usize, loads: &[f64], units: &[f64]) -> Inputs {
    let unit = |(at, load): (usize, &f64)| Unit {
        name: format!("u{}", at + 1),
        kind: "sequencer".to_owned(),
        tenant: "alice".to_owned(),
        rates: UnitRates { ird: *load, ..UnitRates::default() },
    };
    Inputs {
        tick: 1,
        whoami,
        ranks: loads.iter().copied().map(rank).collect(),
        units: units.iter().enumerate().map(unit).collect(),
        unit_loads: units.to_vec(),
        state: State::default(),
    }
}

/// What a policy decides.
pub fn decide(policy: &Policy, inputs: &Inputs) -> Decision {
    policy.decide(inputs, &clock()).unwrap_or_else(|error| panic!("{error}"))
}

/// Why a policy fails.
pub fn failure(source: &str, inputs: &Inputs) -> Error {
    policy(source).decide(inputs, &clock()).expect_err("the policy decides")
}

/// The moves of a decision, as `u1>2` for the unit `u1` to the rank with index 2.
pub fn moves(decision: &Decision) -> String {
    let text = |moved: &nacre_balance::Move| format!("{}>{}", moved.unit, moved.to);
    decision.moves.iter().map(text).collect::<Vec<_>>().join(" ")
}

/// The line of the policy at which an error says that it failed.
pub fn line_of(error: &Error) -> Option<u32> {
    error.fault().and_then(|site| site.line)
}
