//! Shares a node's network link among tenants: decides who sends next, and whose messages the node
//! reads next.
//!
//! A node has one [`LinkShaper`]. An operator sets the speed of the link with `nacre slo link`
//! ([`LinkSettings`]). From then on, a [`Gate`] for each direction of the link lets one message or
//! part after the other pass, at the speed of the link and in the order of the tenants' promises.
//!
//! - Sending: each tenant of a session has a queue of its own in the session's outbox, a *lane*. A
//!   large message is cut into parts, and each part waits at the gate separately. So the node can
//!   send a small message of another tenant between two parts.
//! - Receiving: a session that has read a batch waits at the gate before it reads the next batch.
//!   Until then the flow control of HTTP/2 and TCP holds the client back.
//!
//! So messages wait at the gate, which orders them, and not in the buffers of the network.
//!
//! **Invariant:** while no speed is set, no message waits here, and the only cost of a message is
//! the check whether a speed is set.

mod gate;
mod link_order;
mod settings;
mod shaper;

pub use settings::{LinkSettings, TenantLink};
pub use shaper::LinkShaper;

pub(crate) use gate::{Gate, Ticket};
