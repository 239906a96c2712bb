//! Tail-latency promises: decides which latency can be promised to a tenant, and which request a
//! target serves next so that promises are kept. `nacre-slo` carries these decisions out.
//!
//! The crate follows PriorityMeister, WorkloadCompactor and the thesis *Supporting Tail Latency
//! SLOs in Ceph*.
//!
//! 1. A [`Profile`] says how much work a request is for a device.
//! 2. [`trace::read`] reads recorded requests of a tenant.
//! 3. An [`ArrivalCurve`] is the most work that the tenant brings in any time span.
//! 4. [`queue_delays`] bounds the latency of tenants that share a device.
//! 5. [`Admission`] decides which tenants can be promised their latency, and finds the token bucket
//!    of each tenant at each target.
//! 6. A [`scheduler::Scheduler`] at each target sends requests in an order that keeps the promises.
//! 7. Several gateways to one target [share](sharing) the token buckets of a tenant.
//! 8. [`simulate::simulate`] simulates tenants, devices and schedulers, to check that promises are
//!    kept.
//!
//! **Invariant:** the crate makes decisions and does no IO. It reads no clock, no random numbers
//! and no environment.

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
