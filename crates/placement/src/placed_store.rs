//! The store that spreads objects over targets.
//!
//! The store sends each request as a whole to the target of its object. This is enough, because a
//! transaction changes only one object. For a listing, the store asks all targets at once and
//! merges their pages.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::{self, BoxFuture, FutureExt, TryFutureExt, try_join_all};
use nacre_object::limits::MAX_LIST_ENTRIES;
use nacre_object::{
    Capabilities, Capability, ListPage, ListRequest, Locate, ObjectId, Reply, Request, Result,
    Stack, Store, TargetName, Watch, WatchStream,
};

use crate::{Placement, Target};

/// A target with the store that reaches it.
#[derive(Clone)]
pub struct PlacedTarget {
    /// Its name and weight.
    pub target: Target,
    /// The store that reaches the target.
    pub stack: Stack,
}

impl PlacedTarget {
    /// A target whose store has watches.
    pub fn new<S: Store + Watch + 'static>(target: Target, store: Arc<S>) -> Self {
        Self { target, stack: store.into() }
    }
}

/// A store over several targets. Each object is on one target; [`Locate`] says on which.
pub struct PlacedStore {
    placement: Placement,
    /// In the order of the placement's targets.
    targets: Vec<PlacedTarget>,
}

impl PlacedStore {
    /// A store over these targets.
    ///
    /// # Errors
    /// Those of [`Placement::new`].
    pub fn new(targets: Vec<PlacedTarget>) -> Result<Self> {
        let placement = Placement::new(targets.iter().map(|of| of.target.clone()).collect())?;
        Ok(Self { placement, targets })
    }

    /// The placement of objects.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    fn target_of(&self, object: &ObjectId) -> &PlacedTarget {
        let key = object.name.placement_key();
        &self.targets[self.placement.locate_index(&object.pool, key)]
    }
}

#[async_trait]
impl Store for PlacedStore {
    // Not an `async fn`: its future would keep the memory of the request until the answer comes.
    fn submit<'a, 'b>(&'a self, request: Request) -> BoxFuture<'b, Result<Reply>>
    where
        'a: 'b,
        Self: 'b,
    {
        let PlacedTarget { target, stack } = self.target_of(&request.header.object);
        let capabilities = match request.header.snapshot {
            // The target may have a state that its engine does not keep: gateways to Ceph keep copies.
            Some(_) => self.capabilities().with(Capability::Snapshots),
            None => self.capabilities(),
        };
        let checked = capabilities.check(&request);
        if let Err(error) =
            checked.and_then(|()| self.placement.check_sources(&request, &target.name))
        {
            return future::err(error).boxed();
        }
        stack.submit(request).map_err(|error| error.at(&target.name)).boxed()
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        let pages = self.targets.iter().map(|PlacedTarget { target, stack }| {
            let request = request.clone();
            async move { stack.list(request).await.map_err(|error| error.at(&target.name)) }
        });
        Ok(merge(try_join_all(pages).await?, request.limit.min(MAX_LIST_ENTRIES)))
    }

    fn capabilities(&self) -> Capabilities {
        let all = self.targets.iter().map(|of| of.stack.capabilities());
        all.fold(Capabilities::all(), Capabilities::intersection)
    }
}

/// Merges the pages of several targets into one.
///
/// If a target's page is incomplete, names after the last name of the page are unknown. So the
/// merged page must not go beyond the last name of any incomplete page.
fn merge(pages: Vec<ListPage>, limit: usize) -> ListPage {
    let ends = pages.iter().filter(|page| page.more).map(|page| page.names.last().cloned());
    let (end, more) = match ends.min() {
        None => (None, false),
        Some(end) => (end, true),
    };
    let mut names: Vec<_> = pages.into_iter().flat_map(|page| page.names).collect();
    // A stable sort merges runs that are sorted already.
    names.sort();
    names.dedup();
    let known = match &end {
        Some(end) => names.partition_point(|name| name <= end),
        None if more => 0,
        None => names.len(),
    };
    let kept = known.min(limit);
    let more = more || kept < names.len();
    names.truncate(kept);
    ListPage { names, more }
}

#[async_trait]
impl Watch for PlacedStore {
    async fn watch(&self, object: &ObjectId) -> Result<WatchStream> {
        let PlacedTarget { target, stack } = self.target_of(object);
        stack.watch(object).await.map_err(|error| error.at(&target.name))
    }

    async fn notify(&self, object: &ObjectId, payload: Bytes) -> Result<()> {
        let PlacedTarget { target, stack } = self.target_of(object);
        stack.notify(object, payload).await.map_err(|error| error.at(&target.name))
    }
}

impl Locate for PlacedStore {
    fn locate(&self, object: &ObjectId) -> TargetName {
        self.target_of(object).target.name.clone()
    }

    fn targets(&self) -> Vec<TargetName> {
        self.targets.iter().map(|of| of.target.name.clone()).collect()
    }
}

impl std::fmt::Debug for PlacedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlacedStore").field("targets", &self.placement.targets()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nacre_object::ObjectName;

    fn page(names: &str, more: bool) -> ListPage {
        let names = names.split_whitespace().map(|name| ObjectName::new(name).unwrap()).collect();
        ListPage { names, more }
    }

    #[test]
    fn a_merged_page_ends_where_a_targets_own_page_ends() {
        let merged = |pages: &[(&str, bool)], limit| {
            merge(pages.iter().map(|(names, more)| page(names, *more)).collect(), limit)
        };
        assert_eq!(merged(&[("a d", false), ("b", false), ("", false)], 9), page("a b d", false));
        assert_eq!(merged(&[("a d", false), ("b c", false)], 4), page("a b c d", false));
        assert_eq!(merged(&[("a d", false), ("b c", false)], 3), page("a b c", true));
        assert_eq!(merged(&[("a d", false), ("b c", true)], 9), page("a b c", true));
        assert_eq!(merged(&[("a d", true), ("b c", true)], 9), page("a b c", true));
        assert_eq!(merged(&[("a b", true), ("c d", true)], 2), page("a b", true));
        assert_eq!(merged(&[("", false), ("", true)], 0), page("", true));
        assert_eq!(merged(&[("", false), ("", false)], 0), page("", false));
        assert_eq!(merged(&[("a b", false), ("a b", false)], 9), page("a b", false));
    }
}
