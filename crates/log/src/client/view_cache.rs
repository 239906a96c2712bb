//! The view a client goes by. It may be old; then somebody refuses, and the client looks.
//!
//! One thing nobody refuses: a sequencer that lays the log out anew from its tail on does not seal
//! the objects before, so a client with an older view would look for later positions there, and
//! find nothing. Hence a position's place in a view is only taken for final if the position was
//! issued before the view was read. Tails come with the epoch of the view they were issued under,
//! and tell which positions that is known of; about others the client reads the stored view again
//! before it believes that there is nothing, and after it has changed something.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use nacre_object::{Error, Result};

use crate::LogName;
use crate::core::Grant;
use crate::view::View;
use crate::views::{ViewStore, stored_view};

#[derive(Debug)]
pub(crate) struct ViewCache {
    log: LogName,
    views: Arc<dyn ViewStore>,
    known: RwLock<KnownView>,
    /// Held while the stored view is read, so that many who are refused read it once.
    looking: tokio::sync::Mutex<()>,
}

/// A view, and of which positions it is known that it says the last word.
#[derive(Debug, Clone)]
pub(crate) struct KnownView {
    pub view: Arc<View>,
    /// Positions below were issued by the view's sequencer under this view or an earlier one: they are where it
    /// says, for good.
    pub final_below: u64,
}

impl ViewCache {
    /// # Errors
    /// `NotFound` if there is no such log.
    pub async fn open(log: LogName, views: Arc<dyn ViewStore>) -> Result<Self> {
        let view = Arc::new(stored_view(&*views, &log).await?);
        let known = RwLock::new(KnownView { view, final_below: 0 });
        Ok(Self { log, views, known, looking: tokio::sync::Mutex::default() })
    }

    fn read_known(&self) -> RwLockReadGuard<'_, KnownView> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_known(&self) -> RwLockWriteGuard<'_, KnownView> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The view at hand, with what is known of it: both of one moment.
    pub fn known(&self) -> KnownView {
        self.read_known().clone()
    }

    pub fn get(&self) -> Arc<View> {
        self.read_known().view.clone()
    }

    /// The view at hand, if its sequencer is known to have issued `position`. Then the position is
    /// where the view says, for good, and no sequencer to come issues it unless every object that
    /// it may be in refuses this view's epoch by then.
    pub fn issued(&self, position: u64) -> Option<Arc<View>> {
        let known = self.read_known();
        (position < known.final_below).then(|| known.view.clone())
    }

    /// Takes note that positions below `tail` were issued by the sequencer of `view`, under that
    /// view or earlier ones.
    pub fn heard_of_tail(&self, tail: u64, view: &View) {
        let mut known = self.write_known();
        if known.view.sequencer() == view.sequencer() {
            known.final_below = known.final_below.max(tail);
        }
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
    fn note(&self, grant: Grant, asked: Arc<View>) -> Option<Arc<View>> {
        let mut known = self.write_known();
        if known.view.epoch() < grant.epoch {
            return None;
        }
        if !grant.is_void_in(&known.view) {
            known.final_below = known.final_below.max(grant.end());
        }
        let is_same = Arc::ptr_eq(&known.view, &asked);
        Some(if is_same { asked } else { known.view.clone() })
    }

    /// The stored view, read now. Positions that were issued before are where it says, for good.
    pub async fn read_now(&self) -> Result<Arc<View>> {
        let _alone = self.looking.lock().await;
        self.read().await
    }

    /// The view, read anew unless the one at hand is of a later epoch than `epoch`. The answer may
    /// be no later if nothing later is stored.
    pub async fn later_than(&self, epoch: u64) -> Result<Arc<View>> {
        let _alone = self.looking.lock().await;
        let view = self.get();
        if view.epoch() > epoch { Ok(view) } else { self.read().await }
    }

    async fn read(&self) -> Result<Arc<View>> {
        let view = Arc::new(stored_view(&*self.views, &self.log).await?);
        let mut known = self.write_known();
        if view.born() != known.view.born() {
            return Err(Error::not_found(format!("log {} was removed", self.log))
                .hint("another of its name was made since: open that"));
        }
        if view.epoch() > known.view.epoch() {
            if view.sequencer() != known.view.sequencer() {
                // What its predecessor issued and nobody wrote the new one issues again.
                known.final_below = 0;
            }
            known.view = view;
        }
        Ok(known.view.clone())
    }

    /// The view if it is of this epoch or a later one, read anew if need be.
    ///
    /// # Errors
    /// `Unavailable` if only an older one is found.
    pub async fn at_least(&self, epoch: u64) -> Result<Arc<View>> {
        let current = self.get();
        if current.epoch() >= epoch {
            return Ok(current);
        }
        let view = self.later_than(epoch - 1).await?;
        if view.epoch() < epoch {
            return Err(
                Error::unavailable(format!("view {epoch} is not to be found")).on(&self.log)
            );
        }
        Ok(view)
    }
}
