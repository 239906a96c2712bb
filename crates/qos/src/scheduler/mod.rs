//! The order of service at one target: whose request is sent to the device next.
//!
//! The layer in front of a target calls [`Scheduler`]: [`Scheduler::enqueue`] for each request that comes,
//! [`Scheduler::next`] whenever something has changed, and [`Scheduler::complete`] for each request that the device
//! has done. The scheduler decides and does nothing; readings of a clock come in as arguments.
//!
//! # Order
//!
//! It is that of appendix A of the thesis, with weights for tenants without a promise:
//!
//! 1. Tenants within their limits go first. A tenant is within its limits if every token bucket covers its next
//!    request. Of these the highest priority goes first. Equal priorities take turns in the thesis. The latency bound
//!    does not hold then, so here the first come goes first, unless [`Ties`] says otherwise.
//! 2. Tenants outside their limits take turns, whatever their priority. Tenants without a promise share by weight
//!    beside them. A tenant outside its limits counts as one of weight 1.
//!
//! [`Scheduler::next_by`] has something else choose the tenant ([`ServiceOrder`]), such as a program. Buckets, charges and
//! the bounds of the device stay as they are.
//!
//! # Protocol
//!
//! - A bucket is charged when a request comes, and again by the difference when its true work is known. A request of
//!   unknown work passes as long as the bucket is not empty, which may leave the bucket below 0. A request larger
//!   than the burst passes when the bucket is full.
//! - A request that is sent although its tenant is outside its limits takes the tokens that are left. It makes no bucket
//!   negative.
//! - Few requests are outstanding at the device ([`DeviceLimits`]). While a tenant within its limits waits for room,
//!   nothing of a lower priority is sent.
//! - A device may commit writes in groups ([`Commits`]). Then as many writes must be outstanding as two groups have: one
//!   group is synced while the other gathers. Room is counted in requests and bytes all the same.
//! - The device may serve requests in any order. Once a full device has been sent since a request went out, nothing
//!   of a lower priority is sent until that request is done.
//! - A queue has bounds. A request that finds it full, or that would miss its deadline, is refused with the time to
//!   wait.
//!
//! # Invariants
//!
//! - While requests are queued, the device does not idle.
//! - A tenant whose traffic stays within its buckets is never outside its limits, however long its requests wait.
//! - A decision takes a logarithm of the number of tenants.

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

/// A reading of a clock that never goes back: the time since some moment of its owner's choice.
pub type Time = std::time::Duration;
