//! The experiments of the thesis *Supporting Tail Latency SLOs in Ceph* on running clusters: the
//! bench `slo-admit`, and figures 9 to 18.
//!
//! Three clients send writes to three targets with slow disks. Requests, rates and promises are
//! those of [`nacre_experiments::thesis`], scaled to the speed of the targets.
//!
//! - `clients`: the clients, admission by an estimator, and the open loop that sends their requests;
//! - `estimators`: which clients an estimator admits, and what their requests do (table 1, figures
//!   13 to 18);
//! - `admit`: the bench `slo-admit`, which reports this;
//! - `figures`: the figures as charts and findings.

mod admit;
mod clients;
mod estimators;
mod figures;

pub(crate) use self::admit::{run, run_on_ceph};
pub(crate) use self::figures::{measure_estimators, measure_priority, measure_rate_limits};
