//! The protocol: sessions, the remote store, the server.
//!
//! The messages and the rules both ends follow are written down in crate `protocol`. A client has one [`Session`] with a node: a stream each way, on which everything travels in
//! batches. [`RemoteStore`] makes the store at its far end look like any other. A node serves its
//! store, its watches and its services with a [`Server`]. Over the network both prove who they are by
//! an [`Identity`].
//!
//! **Invariant:** nothing that comes in is believed: names, bounds and numbers are checked in
//! `decode`, and who asks is decided by the server.

mod client;
mod codec;
mod endpoint;
#[cfg(test)]
mod fuzz_tests;
mod identity;
mod keep_alive;
pub mod limits;
mod message;
mod outbox;
mod server;
mod socket_path;

pub use nacre_protocol::proto;

pub use client::{NodeInfo, RemoteStore, Session, SessionOptions};
pub use endpoint::Endpoint;
pub use identity::{Authority, Identity, Usage};
pub use keep_alive::KeepAlive;
pub use server::{
    Caller, KindCounts, Listener, Refusal, RefusalObserver, RefusalReason, RequestCounts, Server,
    ServerBuilder, Service,
};

/// The gRPC service of a node.
pub const SERVICE_NAME: &str = "nacre.v1.Nacre";
