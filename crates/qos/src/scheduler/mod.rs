//! The scheduler of one target: decides whose request is sent to the device next.
//!
//! The layer in front of a target calls [`Scheduler`]: [`Scheduler::enqueue`] for each request that
//! arrives, [`Scheduler::next`] whenever something has changed, and [`Scheduler::complete`] for
//! each request that the device has completed. The scheduler only decides. The caller sends the
//! requests, and passes the time of a clock.
//!
//! # Order
//!
//! This is the *built-in* order (`native` on the command line). It is the order of appendix A of
//! the SLO thesis (*Supporting Tail Latency SLOs in Ceph*), with weights for tenants without a
//! promise:
//!
//! 1. Tenants within their limits go first. A tenant is within its limits if every token bucket
//!    covers its next request. Among these tenants the highest priority goes first. Among tenants
//!    of equal priority, the request that arrived first goes first, unless [`Ties`] says otherwise.
//!    (In the thesis such tenants take turns, but then the latency bound does not hold.)
//! 2. Tenants outside their limits take turns, regardless of their priority. They share the
//!    remaining capacity with the tenants without a promise, by weight. A tenant outside its limits
//!    has the weight 1.
//!
//! [`Scheduler::next_by`] lets a [`ServiceOrder`], for example an order program, choose the tenant.
//! It uses the same buckets, charges and device limits.
//!
//! # Protocol
//!
//! - The scheduler charges a token bucket when a request arrives. When the true work of the request
//!   is known, the scheduler charges the difference. A request of unknown work passes as long as
//!   the bucket is not empty, and may leave the bucket below 0. A request larger than the burst
//!   passes when the bucket is full.
//! - A request that is sent although its tenant is outside its limits takes only the tokens that
//!   are left. It never makes a bucket negative.
//! - Only few requests are outstanding at the device ([`DeviceLimits`]). While a tenant within its
//!   limits waits because the device is full, no request of lower priority is sent.
//! - A device may commit writes in groups ([`Commits`]). Then the limits, which count requests and
//!   bytes, must allow two groups of outstanding writes: the device syncs one group while the other
//!   gathers.
//! - The device may serve requests in any order. Once the requests sent after some request could
//!   fill the device, no request of lower priority is sent until that request is done.
//! - A tenant's queue has limits. A request is refused, with the time to wait, if the queue is full
//!   or if the request would miss its deadline.
//!
//! # Invariants
//!
//! - While requests wait, the device is not idle.
//! - A tenant whose traffic conforms to its buckets is never outside its limits, however long its
//!   requests wait.
//! - A decision takes logarithmic time in the number of tenants.

mod core;
mod fair_shares;
mod in_flight;
mod order;
mod settings;
mod tenant;
mod waiting;

pub use core::{Next, Refused, Scheduler, Sent};
pub use settings::{Commits, DeviceLimits, KindLimits, Share, TenantSettings, Ties};
pub use tenant::{NewRequest, RequestId, TenantId, TenantState, Work};
pub use waiting::{ServiceOrder, Waiting};

/// A reading of a monotonic clock: the time since a starting point that the clock's owner chose.
pub type Time = std::time::Duration;
