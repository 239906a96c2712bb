//! Chooses the physical layout of a Brados program, that is, where its objects keep their rows.
//!
//! A program can have many layouts ([`nacre_brados::layout`]). The best one depends on its
//! requests, the engine and the device. A [`Profile`] is the result of measuring an engine once.
//! From the accesses of a transaction and the number of transactions in flight, a profile gives the
//! transaction's cost. A [`Workload`] describes the requests. From a profile and a workload,
//! [`tune`] predicts the cost of each layout. It measures the few layouts that are predicted to be
//! best, and chooses one of them.
//!
//! - `workload`: the requests;
//! - `shape`, `sketch`: which accesses a transaction makes, found by running it on an object in
//!   memory;
//! - `probe`, `profile`: the cost of transactions on an engine;
//! - `own_engine`, `workbench`: the engine for measurements;
//! - `predict`, `candidates`, `measure`, `tune`: the choice;
//! - `observed`: a workload made from the counted calls of a running class.
//!
//! **Invariant:** a choice depends only on the profile, the workload and the measurements of this
//! run. The report contains the predictions, the measurements, and what simple rules would have
//! chosen.

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
