//! The limits of a node's network link: which tenant sends next, and whose messages are read next.
//!
//! A [`LinkShaper`] belongs to a node. While the speed of the node's link is stated
//! ([`LinkSettings`]), each direction of the link has a [`Gate`]. Whoever sends or has read bytes
//! enters the gate, and goes on when the gate says that it is the turn of these bytes.
//!
//! - Sending: each tenant of a session has a lane in the session's outbox. A large message is cut
//!   into parts, and each part enters the gate by itself. So a small message of another tenant is
//!   sent between two parts.
//! - Receiving: a session that has read a batch reads the next one only when it is the turn of the
//!   bytes that it has read. Until then the flow control of HTTP/2 and TCP holds the client back.
//!
//! The gate lets bytes pass at the speed of the link, so that messages wait here, where they are
//! ordered, and not in the buffers of the network.
//!
//! **Invariant:** without a stated speed nothing waits here, and a message costs one branch.

mod gate;
mod link_order;
mod settings;
mod shaper;

pub use settings::{LinkSettings, TenantLink};
pub use shaper::LinkShaper;

pub(crate) use gate::{Gate, Ticket};
