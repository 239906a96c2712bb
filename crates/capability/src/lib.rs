//! Capabilities: revocable rights of clients to use the state of a resource on their own.
//!
//! A resource has one authority. Without a capability, a client sends each operation to the
//! authority and waits for the answer: a *round trip*. With a *shared* capability many clients read
//! copies of the state. With the *exclusive* capability a single client changes the state locally,
//! and the authority answers no client meanwhile. The sequencer of a log is such a resource: see
//! `nacre-log`.
//!
//! This crate only decides: [`Authority`] and [`Holder`] have neither IO nor a clock. A [`Policy`]
//! says which client gets which capability, for how long, and which client is next. [`Lending`] is
//! an authority with its waiting questions.
//!
//! # Protocol
//!
//! 1. A client asks, with a number that grows from attempt to attempt. The authority grants under
//!    that number, or serves the client by a round trip, or lets it wait.
//! 2. The holder keeps asking for news. Each question that reaches the authority renews the lease.
//! 3. When another client needs the state, the authority revokes the grant, at once or when the
//!    policy says so. The holder stops, and returns the grant with a report of its operations.
//! 4. If the lease ends first, the holder is *evicted*: the runtime fences it off and finds the
//!    state without its help. For a log this is a seal at the next epoch.
//!
//! # Invariants
//!
//! - While there is an exclusive grant, there is no other grant, and no other client is served.
//! - The holder counts its lease from before it sent its question, the authority from after it
//!   received it. So the holder stops first, as long as both clocks run at one speed.
//! - A client never asks an authority of an earlier epoch than that of a grant it has had. Such an
//!   authority knows nothing of the grant, and the client would take its answer for the end of the
//!   grant.
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
