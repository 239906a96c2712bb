//! Chooses the physical layout of a Brados program.
//!
//! A program can be kept in many layouts ([`nacre_brados::layout`]). Which is best depends on its
//! requests, the engine and the device. An engine is measured once, and its [`Profile`] gives the
//! cost of a transaction by the size and number of its accesses, and by the number of transactions
//! in flight. A [`Workload`] describes the requests. [`tune`] predicts the cost of each layout from
//! both, measures the few layouts that are predicted to be best, and chooses one.
//!
//! - `workload`: the requests;
//! - `shape`, `sketch`: what a transaction touches, found by running it on an object in memory;
//! - `probe`, `profile`: the cost of transactions on an engine;
//! - `own_engine`, `workbench`: the engine for measurements;
//! - `predict`, `candidates`, `measure`, `tune`: the choice;
//! - `observed`: the workload of a running class, from the counts of its calls.
//!
//! **Invariant:** a choice depends only on the profile, the workload and the measurements of this
//! run. Its report has the predictions, the measurements, and what simple rules would have chosen.

mod candidates;
mod fingerprint;
mod measure;
mod observed;
mod own_engine;
mod predict;
mod probe;
mod profile;
mod shape;
mod sketch;
mod tune;
mod workbench;
mod workload;

pub use candidates::Rule;
pub use fingerprint::Fingerprint;
pub use observed::{Derived, Objects, Rows, workload_of};
pub use own_engine::OwnEngine;
pub use profile::Profile;
pub use shape::{Access, Shape};
pub use tune::{Effort, Tried, Tuned, foresee, tune};
pub use workbench::Workbench;
pub use workload::{Workload, WorkloadError};
