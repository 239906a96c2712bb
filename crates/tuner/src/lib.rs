//! Physical design: which layout a Brados program is to have.
//!
//! A program can be kept in many layouts ([`nacre_brados::layout`]), and which is best depends on what it is
//! asked for, on the engine and on the device. So an engine is measured once ([`Profile`]: whole
//! transactions, by size, number of accesses and depth), a [`Workload`] says what will be asked, and
//! [`tune`] predicts what each layout takes, measures the best few for real and chooses.
//!
//! - `workload`: what is asked;
//! - `shape`, `sketch`: what a transaction touches, found by trying it on an object in memory;
//! - `probe`, `profile`: what transactions take on an engine;
//! - `own_engine`, `workbench`: where it is measured;
//! - `predict`, `candidates`, `measure`, `tune`: the choice;
//! - `observed`: the workload of a running class, from what is counted of its calls.
//!
//! **Invariant:** a choice rests on the profile, the workload and measurements of this run; it says what it
//! was predicted, what it measured, and what simple rules would have taken.

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
