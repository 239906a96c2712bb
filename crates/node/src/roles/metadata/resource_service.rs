//! The resources of a node as a service of the wire.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use nacre_object::Result;
use nacre_resource::{Asker, ResourceEnv, ResourceHost};
use nacre_wire::{Caller, Service};

use super::JoinContext;

/// Hands questions to the host.
#[derive(Debug)]
pub(super) struct ResourceService {
    host: ResourceHost,
}

impl ResourceService {
    /// A service of this host.
    pub fn new(host: ResourceHost) -> Self {
        Self { host }
    }
}

#[async_trait]
impl Service for ResourceService {
    async fn ask(&self, caller: &Caller, method: &str, input: Bytes) -> Result<Bytes> {
        let tenant = caller.tenant();
        let asker = Asker { entity: caller.entity(), tenant: &tenant };
        self.host.handle(asker, method, &input).await
    }
}

/// What the resources of a node need.
pub(super) fn resource_env(node: &JoinContext<'_>) -> ResourceEnv {
    ResourceEnv {
        maps: node.cluster.maps().clone(),
        records: Arc::clone(node.cluster.resources().records()),
        transport: Arc::clone(&node.cluster.log_env().sequencers),
        file_types: node.classes.file_types(),
        policies: Arc::new(node.classes.capability_policies()),
        faults: node.classes.file_type_faults(),
        clock: Arc::clone(node.clock),
    }
}
