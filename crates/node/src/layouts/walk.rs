//! Walks over all objects of a class, and rewrites those that are not in the present layout of the
//! class.
//!
//! **Invariant.** The walk may stop at any time: each step is a transaction of the object's class,
//! like a request, and repeating a step has no effect. A stored record has the name of the object
//! that was visited last, so that another process can continue the walk.

use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use nacre_brados::{LAYOUT_KEY, LayoutSignatures, Whereabouts};
use nacre_object::{ClassName, Error, ErrorKind, ObjectName, PoolName, Result};

use super::change::{Onward, Walk};
use nacre::{Cluster, Object};

/// How many names are listed at a time. The progress is recorded after this many objects.
const PAGE: usize = 64;
/// How many objects are examined at the same time.
const LOOKS: usize = 8;
/// The pauses after each page and each step keep the load on clients low. They limit a walk to
/// about 2000 objects a second, and to 250 steps a second of at most a mebibyte each.
const PAUSE_AFTER_PAGE: Duration = Duration::from_millis(30);
const PAUSE_AFTER_STEP: Duration = Duration::from_millis(4);

/// A walk over the objects of a class.
pub(super) struct Walker<'a> {
    pub cluster: &'a Cluster,
    pub class: &'a ClassName,
    pub marks: &'a LayoutSignatures,
}

/// The result of one page.
#[derive(Debug)]
pub(super) struct Page {
    /// How it goes on.
    pub onward: Onward,
    /// Objects that could not be moved, and why.
    pub failures: Vec<String>,
}

impl Walker<'_> {
    /// Visits the next page of objects, and moves those that are not in the present layout.
    ///
    /// # Errors
    /// `Stale` if another version is active; `Unavailable`.
    pub async fn page(&self, mut walk: Walk) -> Result<Page> {
        let mut failures = vec![];
        let mut pools = self.cluster.pools().await?;
        pools.sort_unstable();
        let from = walk.pool.take().unwrap_or_default();
        // A pool that was removed meanwhile is skipped.
        let mut left = pools.iter().filter(|pool| pool.as_str() >= from.as_str());
        let Some(pool) = left.next() else {
            return Ok(Page { onward: walk.after_pass(), failures });
        };
        let after = walk.after.take().filter(|_| pool.as_str() == from);
        let after = after.map(ObjectName::new).transpose()?;
        let pool = self.cluster.pool(pool.as_str()).await?;
        let page = pool.list(after, "", PAGE).await?;
        let objects: Vec<Object> =
            page.names.iter().map(|name| pool.object(name.as_str())).collect::<Result<_>>()?;
        for object in self.elsewhere(objects).await? {
            match self.moved(&object, walk.version).await {
                Ok(rows) => {
                    walk.moved_in_pass += 1;
                    walk.moved += 1;
                    walk.rows += rows;
                }
                // These errors are temporary, so the walk stops here. It visits the object again
                // once the target answers or the version is loaded.
                Err(error) if is_passing(&error) => return Err(error),
                Err(error) => {
                    walk.failed_in_pass += 1;
                    failures.push(format!("{}: {error}", object.id()));
                }
            }
        }
        tokio::time::sleep(PAUSE_AFTER_PAGE).await;
        if page.more {
            walk.pool = Some(pool.name().to_string());
            walk.after = page.names.last().map(ObjectName::to_string);
            return Ok(Page { onward: Onward::Walk(walk), failures });
        }
        walk.pool = left.next().map(PoolName::to_string);
        let onward = if walk.pool.is_some() { Onward::Walk(walk) } else { walk.after_pass() };
        Ok(Page { onward, failures })
    }

    /// The objects of the class that are not in its present layout.
    async fn elsewhere(&self, objects: Vec<Object>) -> Result<Vec<Object>> {
        let look = |object: Object| async move {
            let place = whereabouts(&object, self.marks).await?;
            Ok::<_, Error>((place == Whereabouts::Elsewhere).then_some(object))
        };
        let looks = stream::iter(objects).map(look).buffered(LOOKS);
        looks.try_filter_map(|found| async move { Ok(found) }).try_collect().await
    }

    /// Moves all rows of an object; how many.
    async fn moved(&self, object: &Object, version: u64) -> Result<u64> {
        let mut rows = 0;
        loop {
            let (is_settled, more) = object.migrate_step(self.class, Some(version)).await?;
            rows += more;
            tokio::time::sleep(PAUSE_AFTER_STEP).await;
            if is_settled {
                return Ok(rows);
            }
        }
    }
}

fn is_passing(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Stale)
}

/// Whether an object belongs to the class with these marks, and in which layout it is.
pub(super) async fn whereabouts(object: &Object, marks: &LayoutSignatures) -> Result<Whereabouts> {
    match object.map_get(LAYOUT_KEY).await {
        Ok(Some(entry)) => Ok(marks.whereabouts(&entry)),
        Ok(None) => Ok(Whereabouts::Foreign),
        // It was removed since it was listed.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Whereabouts::Foreign),
        Err(error) => Err(error),
    }
}
