//! Capabilities: revocable rights of clients to use the state of a resource on their own.
//!
//! One authority serves each resource. Without a capability, a client sends each operation to the
//! authority and waits for the answer: a *round trip*. With a *shared* capability, many clients
//! read copies of the state. With the *exclusive* capability, one client changes the state locally;
//! meanwhile the authority answers no other client. The sequencer of a log is such a resource: see
//! `nacre-log`.
//!
//! This crate only decides: [`Authority`] and [`Holder`] do no IO and have no clock. A [`Policy`]
//! says which client gets which capability, for how long, and which client is next. [`Lending`] is
//! an authority with the requests that wait.
//!
//! # Protocol
//!
//! 1. A client asks for a capability, with a number that grows from attempt to attempt. The
//!    authority grants the capability under that number, or does one operation (a round trip), or
//!    lets the client wait.
//! 2. The holder polls the authority. Each poll that arrives renews the lease.
//! 3. When another client needs the state, the authority revokes the grant, at once or when the
//!    policy says so. The holder stops, and returns the grant with a report of its operations.
//! 4. If the lease ends first, the authority *evicts* the holder: the runtime fences the holder off
//!    and finds the state without its help. For a log, the fence is a seal at the next epoch.
//!
//! # Invariants
//!
//! - While there is an exclusive grant, there is no other grant, and no other client is served.
//! - The holder counts its lease from before it sent its request, the authority from after it
//!   received the request. So the holder stops first, if both clocks run at the same speed.
//! - After a client has had a grant, it asks no authority with an earlier epoch than the grant's.
//!   Such an authority does not know the grant, and the client would conclude that the grant has
//!   ended.
//! - Correctness does not rest on clocks: after an eviction, the fence refuses everything that the
//!   evicted holder does.

mod authority;
mod holder;
mod lending;
pub mod limits;
mod policy;

pub use authority::{Authority, Command, Event, Granted, Question};
pub use holder::{Holder, Over};
pub use lending::Lending;
pub use limits::ALONE;
pub use policy::{
    Ask, Asker, BestEffort, Holding, Mode, Never, NoPrograms, Policies, Policy, Terms, Time,
    Verdict, Wish,
};
