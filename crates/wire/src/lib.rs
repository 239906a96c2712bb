//! The wire protocol between clients and nodes: client sessions, the remote store, and the server.
//!
//! The crate `protocol` defines the messages and the rules. A client has a [`Session`] with a node:
//! one stream in each direction, which carries batches of messages. [`RemoteStore`] makes the
//! node's store look like any other store. A node serves its store, its watches and its services
//! with a [`Server`]. Over the network, client and node authenticate themselves with an
//! [`Identity`].
//!
//! **Invariant:** received data is never trusted. `decode` checks names, bounds and numbers. The
//! server alone decides which entity a request comes from.

mod client;
mod codec;
mod endpoint;
#[cfg(test)]
mod fuzz_tests;
mod identity;
mod keep_alive;
pub mod limits;
mod link;
mod message;
mod outbox;
mod parts;
mod server;
mod socket_path;

pub use nacre_protocol::proto;

pub use client::{NodeInfo, RemoteStore, Session, SessionOptions};
pub use endpoint::Endpoint;
pub use identity::{Authority, Identity, Usage};
pub use keep_alive::KeepAlive;
pub use link::{LinkSettings, LinkShaper, TenantLink};
pub use server::{
    Caller, KindCounts, Listener, Refusal, RefusalObserver, RefusalReason, RequestCounts, Server,
    ServerBuilder, Service,
};

/// The gRPC service of a node.
pub const SERVICE_NAME: &str = "nacre.v1.Nacre";
