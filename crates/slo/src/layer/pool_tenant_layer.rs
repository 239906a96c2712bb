//! `PoolTenantLayer`: gives requests the tenant to which their pool is assigned.

use std::sync::Arc;

use futures::future::BoxFuture;
use nacre_object::{Layer, Reply, Request, Result, Stack, Store};

use super::NodeSlo;

/// The layer that replaces the tenant of a request if an operator has assigned the request's pool to
/// a tenant. So all layers below it see the same tenant. Rules match this tenant, and another node
/// charges it for routed bytes.
#[derive(Debug)]
pub struct PoolTenantLayer {
    next: Stack,
    node: Arc<NodeSlo>,
}

impl PoolTenantLayer {
    /// Puts the layer in front of `next`. `node` knows the assignments.
    pub fn new(next: Stack, node: Arc<NodeSlo>) -> Self {
        Self { next, node }
    }
}

impl Layer for PoolTenantLayer {
    fn next(&self) -> &Stack {
        &self.next
    }

    fn submit(&self, mut request: Request) -> BoxFuture<'_, Result<Reply>> {
        if let Some(tenant) = self.node.tenant_of_pool(&request.header.object.pool) {
            request.header.tenant = tenant;
        }
        self.next.submit(request)
    }
}
