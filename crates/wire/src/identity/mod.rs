//! Authentication over the network: the cluster's authority, identities, and TLS.
//!
//! A cluster has one [`Authority`]. It issues an [`Identity`] to each entity and each node: a key
//! and a certificate whose only alternative name is the URI `nacre:ENTITY`. A node's certificate
//! also has the [`NODE_NAMES`] and the names of its host, because TLS libraries of other languages
//! check these names.
//!
//! Client and node send each other their certificates (TLS 1.3 only), and each verifies the other's
//! with the authority. A client also checks that the node has the name that the client wants.
//!
//! **Invariants:**
//! - Only certificates of nodes can be used to serve. A certificate of any other entity cannot.
//! - Certificates do not expire. An entity's rights are those in its record at the time of the
//!   request.

mod authority;
mod bundle;
mod handshake_failure;
mod tls;

pub use authority::{Authority, Usage};
pub use bundle::Identity;
#[cfg(test)]
pub(crate) use tls::certified;
pub(crate) use tls::{Acceptor, Connector};

/// A name that every node's certificate contains. It shows that the certificate is a node's.
pub(crate) const NODE_SERVER_NAME: &str = "node.nacre";
/// Names in the certificate of every node. A client on the node's machine connects with one of the
/// local names.
pub(crate) const NODE_NAMES: [&str; 4] = [NODE_SERVER_NAME, "localhost", "127.0.0.1", "::1"];
/// Before the entity's name in a certificate.
pub(crate) const ENTITY_URI: &str = "nacre:";
