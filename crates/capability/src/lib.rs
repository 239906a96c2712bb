//! Capabilities: revocable rights of clients to use the state of a resource on their own.
//!
//! A resource has one authority, which answers every operation: a *round trip*. With a *shared* capability many clients
//! read copies of the state. With the *exclusive* one a single client changes the state locally, and the authority
//! answers nothing meanwhile. The sequencer of a log is such a resource: see `nacre-log`.
//!
//! This crate decides and does nothing: [`Authority`] and [`Holder`] have neither IO nor a clock. A [`Policy`] says who
//! gets what, for how long, and whose turn it is. [`Lending`] is an authority with those who wait for it.
//!
//! # Protocol
//!
//! 1. A client asks, with a number that grows from attempt to attempt. The authority grants under that number, or
//!    serves the client by a round trip, or lets it wait.
//! 2. The holder keeps asking for news. Each question that the authority hears renews the lease.
//! 3. When another client needs the state, the authority revokes the grant, now or when the policy says so. The holder
//!    stops, and returns the grant with what it has done.
//! 4. A holder whose lease has ended without that is *evicted*: the runtime fences it off and finds the state without
//!    its help. For a log this is a seal at the next epoch.
//!
//! # Invariants
//!
//! - An exclusive grant is the only one, and nobody is served while there is one.
//! - The holder counts its lease from before it sent its question, the authority from after it heard that. So the
//!   holder stops first, as long as both clocks run at one speed.
//! - A client never asks an authority of an earlier epoch than that of a grant it has had: that one would know nothing
//!   of the grant, and the client would take its answer for the end of it.
//! - Correctness does not rest on clocks: what a holder does after its eviction is refused by the fence.

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
