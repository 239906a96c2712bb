//! `SwitchLayer`: the layer through which all IO of clients passes to their objects' target.

use std::sync::Arc;

use futures::future::{self, BoxFuture, FutureExt};
use nacre_object::{
    Error, Layer, ListPage, ListRequest, OWN_ATTRIBUTES, ObjectId, Op, PoolName, Reply, Request,
    Result, Stack, Store, Watch, WatchStream,
};

use nacre_route::ROUTED_POOL;

use super::{NodeSwitch, Onward};

/// The layer that passes IO to the switch, which routes IO to other nodes by rules. It occurs twice
/// in a node, with the same switch: once for the requests of clients and once for the node's own
/// requests.
#[derive(Debug)]
pub struct SwitchLayer {
    onward: Onward,
    switch: Arc<NodeSwitch>,
}

impl SwitchLayer {
    /// The layer before `onward`, which follows the rules of `switch`.
    pub fn new(onward: Onward, switch: Arc<NodeSwitch>) -> Self {
        Self { onward, switch }
    }
}

fn is_routed(pool: &PoolName) -> bool {
    pool.as_str() == ROUTED_POOL
}

/// Clients reach routed bytes only through the object that they belong to.
fn hidden(object: &ObjectId) -> Error {
    Error::denied("clients can reach routed bytes only through the object that they belong to")
        .on(object)
        .hint("see which objects have such bytes: nacre route status")
}

/// Refuses to change an attribute that is a note of nacre's own.
fn check_attributes(request: &Request) -> Result<()> {
    let is_own = |op: &&Op| match op {
        Op::SetAttribute { name, .. } | Op::RemoveAttribute { name } => {
            OWN_ATTRIBUTES.contains(&name.as_str())
        }
        _ => false,
    };
    match request.ops.iter().find(is_own) {
        Some(Op::SetAttribute { name, .. } | Op::RemoveAttribute { name }) => {
            Err(Error::denied(format!("only nacre itself changes the attribute {name}"))
                .on(&request.header.object)
                .hint("choose another name for the attribute"))
        }
        _ => Ok(()),
    }
}

impl Layer for SwitchLayer {
    fn next(&self) -> &Stack {
        &self.onward.usual
    }

    fn submit(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        if is_routed(&request.header.object.pool) {
            return future::err(hidden(&request.header.object)).boxed();
        }
        if let Err(error) = check_attributes(&request) {
            return future::err(error).boxed();
        }
        if let Err(error) = self.switch.check_staging(&request) {
            return future::err(error).boxed();
        }
        match self.switch.free_pass(&request.header) {
            Some(pass) => self.switch.submit_unconcerned(self.next(), request, pass),
            None => self.switch.submit(self.onward.clone(), request).boxed(),
        }
    }

    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<ListPage>> {
        match is_routed(&request.pool) {
            true => future::ok(ListPage::default()).boxed(),
            false => self.next().list(request),
        }
    }

    fn watch<'a>(&'a self, object: &'a ObjectId) -> BoxFuture<'a, Result<WatchStream>> {
        if is_routed(&object.pool) {
            return future::err(hidden(object)).boxed();
        }
        let changes = self.switch.routed_changes();
        let of_object = object.clone();
        async move {
            let watched = self.next().watch(object).await?;
            Ok(changes.merged(of_object, watched))
        }
        .boxed()
    }

    fn notify<'a>(
        &'a self,
        object: &'a ObjectId,
        payload: bytes::Bytes,
    ) -> BoxFuture<'a, Result<()>> {
        match is_routed(&object.pool) {
            true => future::err(hidden(object)).boxed(),
            false => self.next().notify(object, payload),
        }
    }
}
