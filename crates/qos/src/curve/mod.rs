//! Arrival curves: the most work that a tenant brings in any time span of a given length. Network
//! calculus bounds latencies from them.
//!
//! `nacre slo curve` and admission compute one curve for each trace and target:
//!
//! 1. [`WorkTrace`] has the work of each request.
//! 2. Leaky buckets find the burst that each of about 1,000 rates needs. Each rate with its burst
//!    is a line.
//! 3. The [`ArrivalCurve`] is the minimum of these lines, pruned to few segments.
//!
//! An [`Envelope`] computes a curve from live traffic.
//!
//! **Invariant:** no trace brings more work than its curve says. Pruning only raises a curve.

mod arrival_curve;
mod envelope;
mod leaky_bucket;
mod prune;
mod work_trace;

pub use arrival_curve::{ArrivalCurve, Segment};
pub use envelope::Envelope;
pub use work_trace::{WorkArrival, WorkTrace};
