//! The layer above a target's engine that refuses objects of other targets.
//!
//! Each client computes which target holds an object. A client with a wrong list of targets would
//! create a second copy of an object, on a target where no other client looks for the object. So
//! each target checks every request, watch and notification. It also leaves objects that other
//! targets hold out of its listings.

use bytes::Bytes;
use futures::future::{self, BoxFuture, FutureExt};
use nacre_object::limits::MAX_LIST_ENTRIES;
use nacre_object::{
    Error, Layer, ListPage, ListRequest, ObjectId, Reply, Request, Result, Stack, Store,
    TargetName, Watch, WatchStream,
};

use crate::Placement;

/// The layer above the engine of the target `own`.
///
/// **Invariant:** the engine never gets a request for an object that the placement gives to another
/// target.
#[derive(Debug)]
pub struct HolderCheck {
    next: Stack,
    own: TargetName,
    placement: Placement,
}

impl HolderCheck {
    /// Puts the check for the target `own` above the store `next`.
    pub fn new(next: Stack, own: TargetName, placement: Placement) -> Self {
        Self { next, own, placement }
    }

    /// Refuses an object of another target.
    ///
    /// # Errors
    /// `Invalid`, with the target that holds it.
    fn check(&self, object: &ObjectId) -> Result<()> {
        let holder = self.placement.locate_object(&object.pool, &object.name);
        match holder == &self.own {
            true => Ok(()),
            false => Err(misplaced(object, holder, &self.own)),
        }
    }

    async fn list_held(&self, request: ListRequest) -> Result<ListPage> {
        let limit = request.limit.min(MAX_LIST_ENTRIES);
        // Ask for at least one name, because an empty page cannot say where the next one begins.
        let mut request = ListRequest { limit: limit.max(1), ..request };
        loop {
            let page = self.next.list(request.clone()).await?;
            let last = page.names.last().cloned();
            let is_held = |name: &_| self.placement.locate_object(&request.pool, name) == &self.own;
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
}

fn misplaced(object: &ObjectId, holder: &TargetName, own: &TargetName) -> Error {
    Error::invalid(format!("{holder} holds this object, not {own}"))
        .on(object)
        .hint(format!("send requests for it to {holder}; docs/placement.md has the rule"))
}

impl Layer for HolderCheck {
    fn next(&self) -> &Stack {
        &self.next
    }

    fn submit(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        let checked = self.check(&request.header.object);
        match checked.and_then(|()| self.placement.check_sources(&request, &self.own)) {
            Ok(()) => self.next.submit(request),
            Err(error) => future::err(error).boxed(),
        }
    }

    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<ListPage>> {
        self.list_held(request).boxed()
    }

    fn watch<'a>(&'a self, object: &'a ObjectId) -> BoxFuture<'a, Result<WatchStream>> {
        match self.check(object) {
            Ok(()) => self.next.watch(object),
            Err(error) => future::err(error).boxed(),
        }
    }

    fn notify<'a>(&'a self, object: &'a ObjectId, payload: Bytes) -> BoxFuture<'a, Result<()>> {
        match self.check(object) {
            Ok(()) => self.next.notify(object, payload),
            Err(error) => future::err(error).boxed(),
        }
    }
}
