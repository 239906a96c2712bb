//! The simulator: it shows what a policy would do to a made-up cluster.
//!
//! `nacre balancer simulate` calls [`simulate`] with a [`Scenario`]: ranks, units, the operations
//! that clients ask for, and a [`CostModel`]. At each tick every rank decides with the real
//! [`Policy`](crate::Policy), from inputs built as a node builds them. The result is a
//! [`Simulation`].
//!
//! Operations are not simulated one by one. Time advances in steps of about 100 ms. In a step,
//! operations arrive at each unit at some rate, and wait in the queue of the unit's rank. The rank
//! serves as many of them as its time allows, so counts of operations are not whole numbers.
//!
//! Within a step, a rank serves the same share of each of its units' queues. So all its units
//! change by one linear rule, [`Drift`](drift::Drift), and the time to compute a step grows with
//! the number of ranks, not of units.
//!
//! **Invariant:** a unit is on exactly one rank. Each operation that arrived was served, or waits.
//!
//! **Invariant:** the same scenario and policy give the same simulation. A simulation reads no
//! clock and does no IO, and its random numbers follow from the seed.

mod arrival_rates;
mod balancer;
mod clients;
mod cluster;
mod cost_model;
mod directories;
mod drift;
mod migrations;
mod operations;
mod recorded;
mod run;
mod scenario;
mod simulation;
mod source;
mod thrash;

pub use cost_model::CostModel;
pub use operations::{Arrivals, Distribution, Job, JobStep, Operations, TraceEvent};
pub use run::simulate;
pub use scenario::{RankGroup, Scenario, UnitGroup};
pub use simulation::{
    MAX_KEPT_FAILURES, PolicyFailure, SimulatedTick, Simulation, SimulationTotals,
};
pub use thrash::THRASH_TICKS;
