//! The order of service at one target: whose request is sent to the device next.
//!
//! The layer in front of a target calls [`Scheduler`]: [`Scheduler::enqueue`] for each request that
//! comes, [`Scheduler::next`] whenever something has changed, and [`Scheduler::complete`] for each
//! request that the device has completed. The scheduler only decides. The caller passes readings of
//! a clock.
//!
//! # Order
//!
//! The order is that of appendix A of the thesis, with weights for tenants without a promise:
//!
//! 1. Tenants within their limits go first. A tenant is within its limits if every token bucket
//!    covers its next request. Among these tenants the highest priority goes first. Tenants of
//!    equal priority take turns in the thesis, but then the latency bound does not hold. So here
//!    the request that came first goes first, unless [`Ties`] says otherwise.
//! 2. Tenants outside their limits take turns, regardless of their priority. Tenants without a
//!    promise share by weight beside them. A tenant outside its limits counts with the weight 1.
//!
//! [`Scheduler::next_by`] lets a [`ServiceOrder`], for example a program, choose the tenant.
//! Buckets, charges and the limits of the device stay the same.
//!
//! # Protocol
//!
//! - A bucket is charged when a request comes. It is charged again, by the difference, when the
//!   true work of the request is known. A request of unknown work passes as long as the bucket is
//!   not empty, and may leave the bucket below 0. A request larger than the burst passes when the
//!   bucket is full.
//! - A request that is sent although its tenant is outside its limits takes only the tokens that
//!   are left. It never makes a bucket negative.
//! - Only few requests are outstanding at the device ([`DeviceLimits`]). While a tenant within its
//!   limits waits for room, no request of lower priority is sent.
//! - A device may commit writes in groups ([`Commits`]). Then two groups of writes must be
//!   outstanding: one is synced while the other gathers. Room is still counted in requests and
//!   bytes.
//! - The device may serve requests in any order. Once the requests sent after a request could fill
//!   the device, no request of lower priority is sent until that request is done.
//! - A queue has limits. A request is refused, with the time to wait, if the queue is full or if
//!   the request would miss its deadline.
//!
//! # Invariants
//!
//! - While requests are queued, the device does not idle.
//! - A tenant whose traffic stays within its buckets is never outside its limits, however long its
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
