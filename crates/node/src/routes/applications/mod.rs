//! Control applications: programs that make the rules of an application by themselves.
//!
//! 1. `nacre route start` stores which program makes the rules of an application
//!    ([`StartedApplication`](super::state::StartedApplication)).
//! 2. One node of the cluster is the controller. It holds a lease; [`term`] says how it takes it.
//! 3. The [`controller`] asks all switches what they have counted, and runs each program when it is
//!    due. [`rates`] makes rates of the counts, and [`caches`] adds up the caches of the nodes. [`run`] is
//!    one run of one program.
//! 4. New rules are analysed as those of `nacre route put`, and committed to the map `routes`, which
//!    all switches follow.
//! 5. [`waiting`] has the IOs that rules send to the controller. Each IO waits for a run of the program
//!    that makes these rules.
//! 6. [`report`] is what the controller says of itself.
//!
//! # Invariants
//!
//! - A node that has lost the lease commits no rules: each commit fails unless the map `routes`
//!   still names this node as the controller.
//! - If the controller dies, rules stay in force, and another node takes over within
//!   [`term::LEASE_TIMES`]`.patience` and a second. It continues with the stored state of each
//!   program.

mod caches;
mod controller;
mod metrics;
mod rates;
mod report;
mod run;
mod term;
mod waiting;

pub(super) use self::controller::{ApplicationsTask, run};
pub(super) use self::metrics::ControllerCollector;
pub(super) use self::report::Reports;
pub use self::report::{ApplicationReport, ControllerReport};
pub(super) use self::waiting::{ControllerQuestion, WaitingIos};
