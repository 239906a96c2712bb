//! Direct reads: a client reads routed bytes straight from the node that keeps them, past the switch
//! of their home (sRoute paper, section 2: replies that go straight to the source). The library for
//! clients has a switch of its own for this, [`ClientRoutes`].
//!
//! # Protocol
//!
//! 1. The client asks the home which rules have the option `direct-reads` ([`DirectRules`]).
//! 2. The client reads an object that such a rule is about, as usual through the home. It also asks
//!    the home where the bytes are ([`WhereAsk`]).
//! 3. The home gives the node that keeps the bytes a *permit* ([`PermitAsk`]): spans, a random token,
//!    and a lease. If the bytes are still there then, the home tells the client the token
//!    ([`Permit`]).
//! 4. The client reads these spans from that node, with the token ([`DirectRead`]). If the node
//!    refuses or does not answer, the client forgets the permit and reads through the home.
//!
//! # Invariants
//!
//! - The node serves a direct read only of bytes that a permit covers and that it stores ([`Permits`]).
//! - Before the home answers a write that puts newer bytes elsewhere, the node drops the old bytes,
//!   and with them all permits of the object. If the node does not confirm this, the home serves no
//!   newer bytes before the lease has ended.
//! - A home that has started lets all its former permits end before it serves routed bytes. A node that
//!   has started has no permits.

mod client_routes;
mod message;
mod permits;

pub use client_routes::{ClientRoutes, DirectSource, NextRead};
pub(crate) use message::covers;
pub use message::{DirectRead, DirectRules, Permit, PermitAsk, WhereAsk};
pub use permits::Permits;
