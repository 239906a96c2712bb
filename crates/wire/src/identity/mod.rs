//! Who is who over the network: the authority that vouches, what an end proves itself by, and TLS.
//!
//! A cluster has one [`Authority`]. It issues an [`Identity`] to each entity and each node: a key
//! and a certificate whose only alternative name is the URI `nacre:ENTITY`. A node's certificate also has the
//! [`NODE_NAMES`] and the names of its host, as libraries in other languages check those. Both ends of a connection show theirs (TLS 1.3 only), and each
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
/// The names that the certificate of every node has. A client on the machine of the node asks for a local one.
pub(crate) const NODE_NAMES: [&str; 4] = [NODE_SERVER_NAME, "localhost", "127.0.0.1", "::1"];
/// Before the entity's name in a certificate.
pub(crate) const ENTITY_URI: &str = "nacre:";
