//! Figures of the Mantle paper, measured on metadata servers (MDS) of CephFS:
//! `nacre-bench experiment mantle-… --ceph-cluster SCRIPT`.
//!
//! A [`CephFsFigure`] consists of trials. Each round of a trial starts its own Ceph cluster, as in
//! the Mantle paper. The clients do the same jobs as in the simulated figure, but fewer operations
//! and without pauses. The results are the counters of the ranks: requests, forwards, sessions.
//! Times mean little here, because all ranks share two processors.
//!
//! - `dev_cluster`: a cluster that runs for one round;
//! - `operations`: translates a job into operations on files;
//! - `clients`: clients that do jobs, each with its own mount;
//! - `trial`: runs a round of a trial;
//! - `creates`, `compilations`: the figures;
//! - `report`: the result of a figure.
//!
//! **Invariant:** a round counts requests only after the directories have been created and placed,
//! and before the clients unmount.

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
