//! The order of service at one target: whose request is sent to the device next.
//!
//! The layer in front of a target calls [`Scheduler`]: [`Scheduler::enqueue`] for each request that comes,
//! [`Scheduler::next`] whenever something has changed, and [`Scheduler::complete`] for each request that the device has
//! done. The scheduler decides and does nothing; readings of a clock come in as arguments.
//!
//! # Order
//!
//! It is that of appendix A of the thesis, with weights for tenants without a promise:
//!
//! 1. tenants that are within their limits: every token bucket covers the request that is their next. The highest
//!    priority goes first. Equals take turns in the thesis; here the first come goes first unless [`Ties`] says otherwise,
//!    because the latency bound does not hold for turns;
//! 2. tenants outside their limits, which take turns whatever their priority; and tenants without a promise, which share
//!    by weight. A tenant outside its limits counts as one of weight 1.
//!
//! # Protocol
//!
//! - A bucket is charged when a request comes, and again by the difference when its true work is known. A request of
//!   unknown work passes as long as the bucket is not empty, which may leave the bucket below 0. A request larger than
//!   the burst passes when the bucket is full.
//! - What a tenant gets outside its limits costs it no tokens that it has not got.
//! - Few requests are outstanding at the device ([`DeviceLimits`]). The device may serve them in any order. So nothing of
//!   lower priority is sent once a full device has been sent since the oldest request of higher priority went out, nor
//!   while a tenant within its limits waits for room.
//! - A queue has bounds. Past them, and if it cannot be served in time for its deadline, a request is refused with the
//!   time to wait.
//!
//! # Invariants
//!
//! - While requests are queued, the device does not idle.
//! - A tenant whose traffic stays within its buckets is never outside its limits, however long its requests wait.
//! - A decision takes a logarithm of the number of tenants.

mod core;
mod in_flight;
mod order;
mod settings;
mod tenant;

pub use core::{Next, Refused, Scheduler, Sent};
pub use settings::{DeviceLimits, KindLimits, Share, TenantSettings, Ties};
pub use tenant::{NewRequest, RequestId, TenantId, TenantState, Work};

/// A reading of a clock that never goes back: the time since some moment of its owner's choice.
pub type Time = std::time::Duration;
