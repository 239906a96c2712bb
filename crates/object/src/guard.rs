//! Access control as a server uses it.
//!
//! A server learns from the connection which [`Peer`] is at the other end. It asks a [`Guard`] once
//! whether to admit the peer, and gets a [`Standing`]. With the standing, the server checks every
//! message as a [`Demand`]. Only the guard knows the stored entities and grants.
//!
//! **Invariant:** a standing checks each message by the grants at the time of the message. So a
//! change of grants affects open sessions from their next message on.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;

use crate::{EntityName, ListRequest, ObjectId, Request, Result, TenantName};

/// Bytes of a certificate's fingerprint: SHA-256.
pub const FINGERPRINT_BYTES: usize = 32;

/// The other end of a connection, with the identity that the connection proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// A process of the user who runs the node, or of root.
    Local,
    /// A peer with the key of a certificate of the cluster's authority.
    Certified {
        /// The entity that the certificate names.
        entity: EntityName,
        /// The SHA-256 of the certificate. It tells two certificates of the same name apart.
        fingerprint: [u8; FINGERPRINT_BYTES],
    },
}

/// What a message asks for.
#[derive(Debug, Clone, Copy)]
pub enum Demand<'a> {
    /// A transaction on an object.
    Request(&'a Request),
    /// Names of a pool.
    List(&'a ListRequest),
    /// Watch an object's changes.
    Watch(&'a ObjectId),
    /// Send a notification to an object's watchers.
    Notify(&'a ObjectId),
    /// A call of one of the node's services.
    Ask {
        /// The service.
        service: &'a str,
        /// Its method.
        method: &'a str,
        /// What the method is given.
        input: &'a [u8],
    },
}

/// Decides which peers a server admits.
#[async_trait]
pub trait Guard: Send + Sync + fmt::Debug {
    /// Admits a peer that asks for a session. Returns the peer's standing, which checks its
    /// messages.
    ///
    /// # Errors
    /// `Denied` if the peer is not admitted; `Unavailable` if the guard cannot decide now.
    async fn admit(&self, peer: &Peer) -> Result<Arc<dyn Standing>>;
}

/// The entity of a session, and what it may do as long as the session lasts.
pub trait Standing: Send + Sync + fmt::Debug {
    /// Who it is.
    fn entity(&self) -> &EntityName;

    /// Whose latency promise its requests count against now.
    fn tenant(&self) -> TenantName;

    /// Checks whether the entity may do `demand` now. The server calls this for every message.
    ///
    /// # Errors
    /// `Denied`, with the missing right and what to do about it.
    fn allow(&self, demand: Demand<'_>) -> Result<()>;

    /// Completes when the session must end, because the entity is no longer admitted.
    fn ended(&self) -> BoxFuture<'static, ()>;
}

/// A standing that allows everything. Nodes have it, and the user who runs the node.
#[derive(Debug, Clone)]
pub struct Unlimited {
    entity: EntityName,
    tenant: TenantName,
}

impl Unlimited {
    /// The standing of `entity`.
    pub fn new(entity: EntityName) -> Self {
        Self { entity, tenant: TenantName::standard() }
    }

    /// The standing of the user who runs the node.
    pub fn local() -> Self {
        Self::new(EntityName::local())
    }
}

impl Standing for Unlimited {
    fn entity(&self) -> &EntityName {
        &self.entity
    }

    fn tenant(&self) -> TenantName {
        self.tenant.clone()
    }

    fn allow(&self, _: Demand<'_>) -> Result<()> {
        Ok(())
    }

    fn ended(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// Admits only the user who runs the node.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalOnly;

#[async_trait]
impl Guard for LocalOnly {
    async fn admit(&self, peer: &Peer) -> Result<Arc<dyn Standing>> {
        match peer {
            Peer::Local => Ok(Arc::new(Unlimited::local())),
            Peer::Certified { entity, .. } => Err(crate::Error::denied(format!(
                "this node keeps no entities, so it cannot admit {entity}"
            ))
            .hint("connect on the node's machine, as the user who runs it")),
        }
    }
}
