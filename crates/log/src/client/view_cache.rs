//! The view a client goes by. It may be old; then somebody refuses, and the client looks.
//!
//! One thing nobody refuses: a sequencer that lays the log out anew from its tail on does not seal
//! the objects before, so a client with an older view would look for later positions there, and
//! find nothing. Hence a position's place in a view is only taken for final if the position was
//! issued before the view was read. Tails come with the epoch of the view they were issued under,
//! and tell which positions that is known of; about others the client reads the stored view again
//! before it believes that there is nothing, and after it has changed something.

use std::sync::Arc;

use nacre_host::{RecordCache, RecordStore};
use nacre_object::Result;

use crate::LogName;
use crate::core::Grant;
use crate::view::View;

#[derive(Debug)]
pub(crate) struct ViewCache(Arc<RecordCache<View, Issued>>);

/// Positions below were issued by the view's sequencer under this view or an earlier one: they are where it
/// says, for good. A sequencer that takes over issues anew what nobody wrote, so that it begins at 0.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Issued {
    below: u64,
}

/// A view, and of which positions it is known that it says the last word.
#[derive(Debug, Clone)]
pub(crate) struct KnownView {
    pub view: Arc<View>,
    /// See [`Issued`].
    pub final_below: u64,
}

impl KnownView {
    /// A view that was stored when this was asked for: it says the last word on all that was there before.
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

    /// What the client of the sequencer goes by.
    pub fn record(&self) -> Arc<RecordCache<View, Issued>> {
        Arc::clone(&self.0)
    }

    /// The view at hand, with what is known of it: both of one moment.
    pub fn known(&self) -> KnownView {
        let known = self.0.read();
        KnownView { view: known.record.clone(), final_below: known.facts.below }
    }

    pub fn get(&self) -> Arc<View> {
        self.0.get()
    }

    /// The view at hand, if its sequencer is known to have issued `position`. Then the position is
    /// where the view says, for good, and no sequencer to come issues it unless every object that
    /// it may be in refuses this view's epoch by then.
    pub fn issued(&self, position: u64) -> Option<Arc<View>> {
        let known = self.0.read();
        (position < known.facts.below).then(|| known.record.clone())
    }

    /// Takes note that positions below `tail` were issued by the sequencer of `view`, under that
    /// view or earlier ones.
    pub fn heard_of_tail(&self, tail: u64, view: &View) {
        self.0.learn(|known, issued| {
            if known.sequencer() == view.sequencer() {
                issued.below = issued.below.max(tail);
            }
        });
    }

    /// Takes note that positions were issued, which were asked for by the view `asked`; a view that knows them,
    /// read anew if need be.
    ///
    /// # Errors
    /// `Unavailable` if only a view is found that is older than theirs.
    pub async fn heard_of_grant(&self, grant: Grant, asked: Arc<View>) -> Result<Arc<View>> {
        if let Some(view) = self.note(grant, asked) {
            return Ok(view);
        }
        let view = self.at_least(grant.epoch).await?;
        Ok(self.note(grant, view.clone()).unwrap_or(view))
    }

    /// Takes note of a grant if the view at hand knows it, and answers that view: as it was `asked`, nearly
    /// always. Every question comes here, on any thread, so this takes one lock and counts no references.
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

    /// The stored view, read now. Positions that were issued before are where it says, for good.
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
