//! The view a client goes by. It may be old; then somebody refuses, and the client looks.

use std::sync::{Arc, PoisonError, RwLock};

use nacre_object::{Error, Result};

use crate::LogName;
use crate::view::View;
use crate::views::ViewStore;

#[derive(Debug)]
pub(crate) struct ViewCache {
    log: LogName,
    views: Arc<dyn ViewStore>,
    current: RwLock<Arc<View>>,
    /// Held while the stored view is read, so that many who are refused read it once.
    looking: tokio::sync::Mutex<()>,
}

impl ViewCache {
    /// # Errors
    /// `NotFound` if there is no such log.
    pub async fn open(log: LogName, views: Arc<dyn ViewStore>) -> Result<Self> {
        let view = stored(&*views, &log).await?;
        let current = RwLock::new(Arc::new(view));
        Ok(Self { log, views, current, looking: tokio::sync::Mutex::default() })
    }

    pub fn get(&self) -> Arc<View> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The view, read anew unless the one at hand is of a later epoch than `epoch`. The answer may
    /// be no later if nothing later is stored.
    pub async fn later_than(&self, epoch: u64) -> Result<Arc<View>> {
        let _alone = self.looking.lock().await;
        let current = self.get();
        if current.epoch() > epoch {
            return Ok(current);
        }
        let view = Arc::new(stored(&*self.views, &self.log).await?);
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if view.epoch() > current.epoch() {
            *current = view;
        }
        Ok(current.clone())
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

async fn stored(views: &dyn ViewStore, log: &LogName) -> Result<View> {
    views
        .current(log)
        .await?
        .ok_or_else(|| Error::not_found(format!("there is no log {log}")).hint("create it first"))
}
