//! The view that a client uses. If the view is old, an object or a sequencer refuses the client,
//! and the client reads the stored view.
//!
//! In one case nobody refuses an old view. A sequencer that opens a new layout at its tail does not
//! seal the old objects first. A client with an older view would look for later positions on the
//! old objects, and find nothing.
//!
//! So the client keeps a bound with the view. Every position below the bound was issued under this
//! view or an earlier one, so no later layout moves the position to another object. A tail raises
//! the bound: each tail comes with the epoch under which the positions below it were issued.
//!
//! For a position at or above the bound, the view may name the wrong object. If such a position
//! looks empty, the client reads the stored view again before it reports the position as empty. To
//! fill or trim such a position, the client first asks the sequencer for the tail.

use std::sync::Arc;

use nacre_host::{RecordCache, RecordStore};
use nacre_object::Result;

use crate::LogName;
use crate::core::Grant;
use crate::view::View;

#[derive(Debug)]
pub(crate) struct ViewCache(Arc<RecordCache<View, Issued>>);

/// The view's sequencer issued all positions below this bound, under this view or an earlier one.
/// So no later view of this sequencer has one of these positions on another object. A new sequencer
/// issues unwritten positions again, so under a new sequencer the bound starts at 0.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Issued {
    below: u64,
}

/// A view and a bound. Later views of the same sequencer have each position below the bound on the
/// same object.
#[derive(Debug, Clone)]
pub(crate) struct CachedView {
    pub view: Arc<View>,
    /// See [`Issued`].
    pub final_below: u64,
}

impl CachedView {
    /// A view read from the store after the request began. Every position that was issued before
    /// the request began is on the object that this view names.
    pub fn stored(view: Arc<View>) -> Self {
        Self { view, final_below: u64::MAX }
    }

    /// Whether it was made by [`Self::stored`].
    pub fn is_stored(&self) -> bool {
        self.final_below == u64::MAX
    }
}

impl ViewCache {
    /// # Errors
    /// `NotFound` if there is no such log.
    pub async fn open(log: LogName, views: Arc<dyn RecordStore<View>>) -> Result<Self> {
        Ok(Self(Arc::new(RecordCache::open(log, views).await?)))
    }

    /// The same cache, for the client of the sequencer.
    pub fn record(&self) -> Arc<RecordCache<View, Issued>> {
        Arc::clone(&self.0)
    }

    /// The cached view and its bound, both read at the same time.
    pub fn cached(&self) -> CachedView {
        let known = self.0.read();
        CachedView { view: known.record.clone(), final_below: known.facts.below }
    }

    pub fn get(&self) -> Arc<View> {
        self.0.get()
    }

    /// The cached view, if its sequencer is known to have issued `position`. Then later views of
    /// this sequencer have the position on the same object. A later sequencer can issue the
    /// position again, but only after every object that may hold the position refuses this view's
    /// epoch.
    pub fn issued(&self, position: u64) -> Option<Arc<View>> {
        let known = self.0.read();
        (position < known.facts.below).then(|| known.record.clone())
    }

    /// Records that the sequencer of `view` issued all positions below `tail`, under that view or
    /// earlier ones.
    pub fn heard_of_tail(&self, tail: u64, view: &View) {
        self.0.learn(|known, issued| {
            if known.sequencer() == view.sequencer() {
                issued.below = issued.below.max(tail);
            }
        });
    }

    /// Records a grant of positions that was requested under the view `asked`. Returns a view that
    /// has the granted positions. Reads it from the store if the cached view does not have them.
    ///
    /// # Errors
    /// `Unavailable` if the stored view is older than the grant's.
    pub async fn heard_of_grant(&self, grant: Grant, asked: Arc<View>) -> Result<Arc<View>> {
        if let Some(view) = self.note(grant, asked) {
            return Ok(view);
        }
        let view = self.at_least(grant.epoch).await?;
        Ok(self.note(grant, view.clone()).unwrap_or(view))
    }

    /// Records a grant of positions if the cached view has them, and returns that view. Nearly
    /// always that view is `asked` itself. Every request for positions calls this function, on any
    /// thread, so it takes only one lock and clones no reference.
    pub fn note(&self, grant: Grant, asked: Arc<View>) -> Option<Arc<View>> {
        self.0.learn(|known, issued| {
            if known.epoch() < grant.epoch {
                return None;
            }
            if !grant.is_void_in(known) {
                issued.below = issued.below.max(grant.end());
            }
            let is_same = Arc::ptr_eq(known, &asked);
            Some(if is_same { asked } else { known.clone() })
        })
    }

    /// Reads the stored view now. It is final for all positions that were issued before.
    pub async fn read_now(&self) -> Result<Arc<View>> {
        self.0.read_now().await
    }

    /// See [`RecordCache::later_than`].
    pub async fn later_than(&self, epoch: u64) -> Result<Arc<View>> {
        self.0.later_than(epoch).await
    }

    /// See [`RecordCache::at_least`].
    pub async fn at_least(&self, epoch: u64) -> Result<Arc<View>> {
        self.0.at_least(epoch).await
    }
}
