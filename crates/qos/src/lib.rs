//! Tail-latency promises: which latency a tenant can be promised, and whose request is next so that it is kept.
//!
//! The crate follows PriorityMeister, WorkloadCompactor and the thesis *Supporting Tail Latency SLOs in Ceph*.
//!
//! 1. A [`Profile`] says how much work a request is for a device.
//! 2. [`trace::read`] reads what a tenant asked for in the past.
//! 3. An [`ArrivalCurve`] is the most work that the tenant brings in any time span.
//! 4. [`queue_delays`] bounds the latency of tenants that share a device.
//! 5. [`Admission`] says who can be promised what, and finds the token bucket of each tenant and target.
//! 6. A [`scheduler::Scheduler`] at each target sends requests in an order that keeps the promises.
//! 7. Several gateways to one target [share](sharing) the buckets of a tenant.
//! 8. [`simulate::simulate`] plays tenants, devices and schedulers, to check that they do.
//!
//! **Invariant:** the crate decides and does nothing. It reads no clock, no random numbers and no environment.

mod admission;
mod calculus;
mod curve;
mod io_kind;
pub mod limits;
mod profile;
pub mod scheduler;
pub mod sharing;
pub mod simulate;
pub mod trace;

pub use admission::{
    Admission, Admitted, Alternative, BoundsQuestion, BucketAtQueue, Candidate, Estimator,
    FirstFit, Fit, Layout, LikelyMiss, Miss, Overload, PlacedTenant, Placement, Queue, QueueFlow,
    QueueTraces, Refusal, Sharing, TenantBound, TenantQuestion, Verdict, bounds, first_fit,
};
pub use calculus::{
    Flow, MarkovSource, RateBurst, Service, SharedQueue, StochasticQueue, late_probability,
    latency_with_probability, legs_latency, meets, priorities, queue_delays, stages_latency,
    violation_probability,
};
pub use curve::{ArrivalCurve, Envelope, Segment, WorkArrival, WorkTrace};
pub use io_kind::IoKind;
pub use profile::{Dip, Link, LinkDirection, Profile, ProfileRow};
