//! Admission decides which tenants can be promised their latency together. It also finds the token
//! buckets that limit each tenant.
//!
//! The caller makes a [`Candidate`] of a tenant's SLO and its arrival curves, one curve for each
//! queue that its requests pass. An [`Estimator`] makes these curves from a trace.
//! [`Admission::admit`] then
//!
//! 1. takes all tenants that share a queue with the candidate, directly or through others;
//! 2. solves a linear program for the rate and burst of each tenant at each queue (`program`);
//! 3. checks the solution again by network calculus (`check`), because the solver keeps its rows
//!    only nearly;
//! 4. stores the new rates and bursts if all promises are kept, and otherwise the former ones.
//!
//! A promise is deterministic or stochastic ([`Candidate::violation`]). A stochastic promise is
//! kept if the deterministic bound meets it, or if the probability of a longer latency is as low as
//! promised. The check of a deterministic promise assumes that all tenants burst at once, those
//! with stochastic promises included. So a stochastic promise never weakens a deterministic one.
//!
//! [`Admission::refusal`] says which tenants would miss their promises, and what would fit.
//! [`first_fit`] finds targets for many tenants.
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
