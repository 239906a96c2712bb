//! Balancer policies: programs that decide which units of load move from one rank to another.
//!
//! A *unit* is something that can move: a sequencer, another resource, a directory fragment. A
//! *rank* is a server that is the authority of units. At each tick every rank decides for its own
//! units, with the same [`Policy`], a program:
//!
//! 1. [`UnitCounters`] count the operations on each unit; [`Policy::measure`] computes a load from
//!    them;
//! 2. each rank sends its [`RankLoad`] to all others;
//! 3. [`Policy::decide`] computes a [`Decision`] from [`Inputs`]: both are plain data that can be
//!    stored and replayed.
//!
//! [`Rounds`] collects the ranks' heartbeats. [`BalancerSettings`] say which policy is in charge,
//! [`NodeTraits`] hold an operator's settings for a node, and [`History`] stores decisions.
//!
//! [`BalancerHook`] checks policies when they are stored, and keeps the active ones in
//! [`LivePolicies`].
//!
//! [`simulate`] runs a policy on a made-up cluster, a [`Scenario`]. [`replay`] runs a policy on
//! recorded ticks.
//!
//! Policies are written in the two dialects of Mantle, see [`Dialect`]. The standard library has
//! some in `programs/balancer`.
//!
//! **Invariant:** only the settings, the traits and the history do IO. Nothing else reads a clock
//! or random numbers: a decision depends only on its inputs. Callers pass in a clock, but it serves
//! only to stop a program that runs too long.

mod counters;
mod heartbeat;
mod history;
mod hook;
pub mod limits;
mod node_traits;
mod policy;
mod replay;
mod rounds;
mod selectors;
mod settings;
mod simulator;
mod tick;
mod trial;

pub use counters::{DecayedCounter, UnitCounters, UnitRates};
pub use heartbeat::Heartbeat;
pub use history::{History, KEPT_TICKS, KeptState, MoveOutcome, TickRecord};
pub use hook::{BALANCER_INTERFACE, BalancerHook, LivePolicies};
pub use node_traits::NodeTraits;
pub use policy::{Dialect, Policy, Translation, translate};
pub use replay::{NodeRecord, Outcome, Replay, ReplayedTick, replay};
pub use rounds::{Progress, Round, Rounds};
pub use selectors::Selector;
pub use settings::{BalancerSettings, DEFAULT_TICK, MAX_TICK, MIN_TICK};
pub use simulator::{
    Arrivals, CostModel, Distribution, Job, JobStep, MAX_KEPT_FAILURES, Operations, PolicyFailure,
    RankGroup, Scenario, SimulatedTick, Simulation, SimulationTotals, THRASH_TICKS, TraceEvent,
    UnitGroup, simulate,
};
pub use tick::{Decision, Inputs, LogLine, Mode, Move, RankLoad, State, Unit};
pub use trial::{Trial, TrialLoad, try_out};
