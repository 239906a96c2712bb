//! Arrival curves: the most work that a tenant brings in any time span of a given length.
//!
//! `nacre slo curve` and admission compute one curve for each trace and target:
//!
//! 1. [`WorkTrace`] has the work of each request.
//! 2. Leaky buckets find the burst that each rate needs, for about 1,000 rates.
//! 3. The [`ArrivalCurve`] is the lower envelope of these lines, pruned to few segments.
//!
//! An [`Envelope`] computes a curve from live traffic.
//!
//! **Invariant:** no trace brings more work than its curve says; pruning only raises a curve.

mod arrival_curve;
mod envelope;
mod leaky_bucket;
mod prune;
mod work_trace;

pub use arrival_curve::{ArrivalCurve, Segment};
pub use envelope::Envelope;
pub use work_trace::{WorkArrival, WorkTrace};
