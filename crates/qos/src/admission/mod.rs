//! Admission: which tenants can be promised their latency together, and the token buckets that keep them apart.
//!
//! The caller makes a [`Candidate`] of a tenant's SLO and its arrival curves, one for each queue that its requests pass
//! ([`Estimator`] makes them of a trace). [`Admission::admit`] then
//!
//! 1. takes all tenants that share a queue with the candidate, directly or through others;
//! 2. solves a linear program for the rate and burst of each tenant at each queue (`program`);
//! 3. checks the solution again by network calculus (`check`), because a solver only nearly keeps its rows;
//! 4. keeps the new rates and bursts if everybody meets the promise, and otherwise the former ones.
//!
//! A promise is deterministic, or stochastic ([`Candidate::violation`]). A stochastic one is kept if the deterministic bound
//! meets it, or if the probability of a longer latency is as low as promised. A deterministic one is checked as if all
//! tenants burst at once, those with stochastic promises included, so none of these weakens it.
//!
//! [`Admission::refusal`] says who would miss what, and what would fit. [`first_fit`] finds targets for many tenants.
//!
//! **Invariant:** at any time the calculus confirms the promise of every admitted tenant.

mod bounds;
mod candidate;
mod check;
mod core;
mod estimator;
mod first_fit;
mod program;
mod refusal;

pub use bounds::{BoundsQuestion, BucketAtQueue, TenantBound, TenantQuestion, bounds};
pub use candidate::{Candidate, Queue, QueueFlow, Sharing};
pub use core::{Admission, Admitted, Verdict};
pub use estimator::{Estimator, Layout, QueueTraces};
pub use first_fit::{FirstFit, PlacedTenant, Placement, first_fit};
pub use refusal::{Alternative, Fit, LikelyMiss, Miss, Overload, Refusal};
