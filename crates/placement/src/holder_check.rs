//! The layer before a target's engine that refuses objects of other targets.
//!
//! Clients compute by themselves which target holds an object. A client that is wrong would make a second copy
//! on a target where nobody looks for it. So each target checks every request, watch and notification, and
//! leaves the names of such copies out of its listings.

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::{self, BoxFuture, FutureExt};
use nacre_object::limits::MAX_LIST_ENTRIES;
use nacre_object::{
    Capabilities, Error, ListPage, ListRequest, ObjectId, Reply, Request, Result, Store,
    TargetName, Watch, WatchStream,
};

use crate::{PlacedTarget, Placement};

/// A target's store and watch, for the objects that the target holds.
///
/// **Invariant:** nothing behind it runs for an object that the placement gives to another target.
pub struct HolderCheck {
    own: PlacedTarget,
    placement: Placement,
}

impl HolderCheck {
    /// The check of `own`, one of the placement's targets.
    pub fn new(own: PlacedTarget, placement: Placement) -> Self {
        Self { own, placement }
    }

    fn name(&self) -> &TargetName {
        &self.own.target.name
    }

    /// Refuses an object of another target.
    ///
    /// # Errors
    /// `Invalid`, with the target that holds it.
    fn check(&self, object: &ObjectId) -> Result<()> {
        let holder = self.placement.locate_object(&object.pool, &object.name);
        match holder == self.name() {
            true => Ok(()),
            false => Err(misplaced(object, holder, self.name())),
        }
    }
}

fn misplaced(object: &ObjectId, holder: &TargetName, own: &TargetName) -> Error {
    Error::invalid(format!("{holder} holds this object, not {own}"))
        .on(object)
        .hint(format!("send requests for it to {holder}; docs/placement.md has the rule"))
}

#[async_trait]
impl Store for HolderCheck {
    // An `async fn` would keep room for the request until it is answered.
    fn submit<'a, 'b>(&'a self, request: Request) -> BoxFuture<'b, Result<Reply>>
    where
        'a: 'b,
        Self: 'b,
    {
        let checked = self.check(&request.header.object);
        match checked.and_then(|()| self.placement.check_sources(&request, self.name())) {
            Ok(()) => self.own.store.submit(request),
            Err(error) => future::err(error).boxed(),
        }
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        let limit = request.limit.min(MAX_LIST_ENTRIES);
        // One name at least: a page of none cannot say where the next one begins.
        let mut request = ListRequest { limit: limit.max(1), ..request };
        loop {
            let page = self.own.store.list(request.clone()).await?;
            let last = page.names.last().cloned();
            let is_held =
                |name: &_| self.placement.locate_object(&request.pool, name) == self.name();
            let mut names: Vec<_> = page.names.into_iter().filter(is_held).collect();
            match last {
                Some(last) if names.is_empty() && page.more => request.after = Some(last),
                _ => {
                    let more = page.more || names.len() > limit;
                    names.truncate(limit);
                    return Ok(ListPage { names, more });
                }
            }
        }
    }

    fn capabilities(&self) -> Capabilities {
        self.own.store.capabilities()
    }
}

#[async_trait]
impl Watch for HolderCheck {
    async fn watch(&self, object: &ObjectId) -> Result<WatchStream> {
        self.check(object)?;
        self.own.watch.watch(object).await
    }

    async fn notify(&self, object: &ObjectId, payload: Bytes) -> Result<()> {
        self.check(object)?;
        self.own.watch.notify(object, payload).await
    }
}

impl std::fmt::Debug for HolderCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HolderCheck").field("target", self.name()).finish_non_exhaustive()
    }
}
