//! Admission: decides which tenants can be promised their latency together, and finds the token
//! buckets that limit each tenant. `nacre-slo` calls it.
//!
//! The caller makes a [`Candidate`] of a tenant's SLO and its arrival curves, one curve for each
//! queue that its requests pass. An [`Estimator`] computes these curves from a trace.
//! [`Admission::admit`] then
//!
//! 1. takes all tenants that share a queue with the candidate, directly or through other tenants;
//! 2. solves a linear program for the rate and burst of each tenant at each queue (`program`);
//! 3. checks the solution by network calculus (`check`), because the solver satisfies its rows only
//!    approximately;
//! 4. stores the new rates and bursts if all promises are kept. Otherwise it changes nothing.
//!
//! A promise is deterministic (no request takes longer) or stochastic (a stated fraction may, see
//! [`Candidate::violation`]). A stochastic promise is kept if the deterministic bound meets it, or
//! if the probability of a longer latency is as low as promised. A stochastic promise never weakens
//! a deterministic one: the check of a deterministic promise assumes that all tenants burst at
//! once.
//!
//! [`Admission::refusal`] says which tenants would miss their promises, and which smaller promise
//! would fit. [`first_fit`] finds targets for many tenants.
//!
//! **Invariant:** the calculus confirms the promise of every admitted tenant.

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
