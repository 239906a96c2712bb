//! Figures of the Mantle paper, measured on metadata servers (MDS) of CephFS: `nacre-bench
//! experiment mantle-… --ceph-cluster SCRIPT`.
//!
//! A [`CephFsFigure`] consists of trials. Each round of a trial starts its own Ceph cluster, as in
//! the paper. The clients carry out the jobs that the simulator uses for the same figure, scaled
//! down and as fast as possible. The results are the counters of the ranks: requests, forwards,
//! sessions. Times mean little here, because all ranks share two processors.
//!
//! - `dev_cluster`: a cluster that exists during one round;
//! - `operations`: a job as operations on files;
//! - `clients`: clients that carry out jobs, each with its own mount;
//! - `trial`: a round of a trial;
//! - `creates`, `compilations`: the figures;
//! - `report`: the result of a figure.
//!
//! **Invariant:** a round counts from the time when the directories exist and are placed, until
//! before the clients unmount.

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
