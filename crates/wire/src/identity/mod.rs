//! Who is who over the network: the authority that vouches, what an end proves itself by, and TLS.
//!
//! A cluster has one [`Authority`]. It issues an [`Identity`] to each entity and each node: a key
//! and a certificate whose only alternative name is the URI `nacre:ENTITY`; a node's has the DNS
//! name [`NODE_SERVER_NAME`] besides. Both ends of a connection show theirs (TLS 1.3 only), and each
//! checks the other's against the authority. A client then checks that the node is the one it
//! means.
//!
//! **Invariants.** Nobody serves with an entity's certificate, and a node's is issued for nodes
//! only. Certificates do not run out: an entity's is worth what its record says at the moment.

mod authority;
mod bundle;
mod handshake_failure;
mod tls;

pub use authority::{Authority, Usage};
pub use bundle::Identity;
#[cfg(test)]
pub(crate) use tls::certified;
pub(crate) use tls::{Acceptor, Connector};

/// The name by which every node's certificate is one of a node.
pub(crate) const NODE_SERVER_NAME: &str = "node.nacre";
/// Before the entity's name in a certificate.
pub(crate) const ENTITY_URI: &str = "nacre:";
