//! `SloLayer`: passes each request through the queue of its target.

use std::sync::Arc;

use futures::future::BoxFuture;
use nacre_object::{Layer, Reply, Request, Result, Stack, Store};

use super::NodeSlo;
use super::cost::{Charging, Cost};
use super::node_slo::Located;

/// The layer directly in front of an engine. See the [module](super).
#[derive(Debug)]
pub struct SloLayer {
    next: Stack,
    node: Arc<NodeSlo>,
}

impl SloLayer {
    /// Puts the layer in front of `next`. It orders requests by the state of `node`.
    pub fn new(next: Stack, node: Arc<NodeSlo>) -> Self {
        Self { next, node }
    }

    async fn run(&self, request: Request) -> Result<Reply> {
        let target = match self.node.locate(&request.header.object) {
            Located::At(target) => target,
            Located::Ask(ask) => ask.await?,
        };
        let queue = self.node.queue(&target);
        let tenant = self.node.tenant_of(&request);
        let mut cost = Cost::of(&request);
        if self.node.is_system(&tenant) {
            // A wrong profile must not block nacre's requests on its own maps.
            cost.charging = Charging::ByTimeAlone;
        }
        let permit = queue.enter(tenant, &cost).await?;
        let reply = self.next.submit(request).await;
        permit.leave(reply.as_ref().ok().map(|reply| cost.moved_bytes(reply)));
        reply
    }
}

impl Layer for SloLayer {
    fn next(&self) -> &Stack {
        &self.next
    }

    fn submit(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        Box::pin(self.run(request))
    }
}
