//! Figures of the Mantle paper on metadata servers (MDS) of CephFS: `nacre-bench experiment mantle-… --ceph-cluster SCRIPT`.
//!
//! A [`CephFsFigure`] consists of trials. Each round of a trial has a Ceph cluster of its own, as in the paper. Clients
//! carry out the jobs that the simulator plays for the same figure, scaled down and as fast as they can. What counts
//! are the ranks' own counters: requests, forwards, sessions. Times say little where all ranks share two processors.
//!
//! - `dev_cluster`: a cluster that lives as long as a round;
//! - `operations`: a job as operations on files;
//! - `clients`: clients that carry out jobs, each with a mount of its own;
//! - `trial`: a round of a trial;
//! - `creates`, `compilations`: the figures;
//! - `report`: what came of a figure.
//!
//! **Invariant:** the counters of a round begin after the directories were made and placed, and end before the clients
//! unmount.

mod clients;
mod compilations;
mod creates;
mod dev_cluster;
mod figure;
mod operations;
mod report;
mod trial;

pub use figure::{CephFsEffort, CephFsFigure};
pub use report::{CephFsReport, MeasuredFinding};
