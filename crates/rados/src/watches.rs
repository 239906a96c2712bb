//! The watches of one engine.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use futures::future::{join, join_all};
use nacre_object::{Error, EventQueue, ObjectId, Result, WatchEvent, WatchStream};
use nacre_rados_layout::mailbox;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::ffi::IoContext;
use crate::mailbox::Mailbox;

/// Watches of one engine: each costs a queue.
pub const MAX_WATCHES: usize = 4096;
/// Mailboxes that are watched at most: those of watches, and the table of pools.
const MAX_MAILBOXES: usize = MAX_WATCHES + 1;
/// How long to wait for the cluster when watches end. If it does not answer in time, it removes the
/// watches later by itself, because they are silent.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// The watched mailboxes of an engine, and limits on watches.
#[derive(Debug)]
pub struct Watches {
    /// Mailboxes with listeners, by pool and name.
    mailboxes: Mutex<HashMap<(String, String), Weak<Mailbox>>>,
    free: Arc<Semaphore>,
    /// Permits for watches in the cluster: each watched mailbox holds one. There are at most as
    /// many mailboxes as watches, except for some mailboxes that are about to end.
    open: Arc<Semaphore>,
    /// How long the cluster has for making a watch.
    patience: Duration,
}

impl Watches {
    /// Makes the table without watches. If the cluster does not make a watch within `patience`, the
    /// watch fails with `Unavailable`.
    pub fn new(patience: Duration) -> Self {
        let permits = |count| Arc::new(Semaphore::new(count));
        let (free, open) = (permits(MAX_WATCHES), permits(MAX_MAILBOXES));
        Self { mailboxes: Mutex::default(), free, open, patience }
    }

    /// Watches an object. `mail` is the namespace that holds the mailboxes of the object's pool.
    ///
    /// # Errors
    /// `Exhausted` if there are [`MAX_WATCHES`] watches already; any error of RADOS.
    pub async fn watch(&self, mail: Arc<IoContext>, object: &ObjectId) -> Result<WatchStream> {
        let permit = self.free.clone().try_acquire_owned();
        let permit = permit.map_err(|_| {
            Error::exhausted(format!(
                "there are already {MAX_WATCHES} watches, the most there can be"
            ))
        })?;
        let mailbox = self.mailbox(mail, object);
        let queue = mailbox.listen(object.name.as_str()).await?;
        Ok(Box::pin(Events { queue, _mailbox: mailbox, _permit: permit }))
    }

    fn mailbox(&self, mail: Arc<IoContext>, object: &ObjectId) -> Arc<Mailbox> {
        let name = mailbox(object.name.as_str());
        // A pool that was removed and made again may lie in another RADOS pool.
        let key = (format!("{} {}", mail.pool_id(), object.pool), name.clone());
        self.mailbox_at(mail, key)
    }

    /// The mailbox that watches the table of pools. It does not count as a watch.
    pub fn table(&self, context: Arc<IoContext>, namespace: &str, name: &str) -> Arc<Mailbox> {
        self.mailbox_at(context, (namespace.to_owned(), name.to_owned()))
    }

    fn mailbox_at(&self, mail: Arc<IoContext>, key: (String, String)) -> Arc<Mailbox> {
        let mut mailboxes = self.mailboxes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = mailboxes.get(&key).and_then(Weak::upgrade) {
            return found;
        }
        mailboxes.retain(|_, mailbox| mailbox.strong_count() > 0);
        let (open, patience) = (self.open.clone(), self.patience);
        let made = Arc::new(Mailbox::new(mail, key.1.clone(), open, patience));
        mailboxes.insert(key, Arc::downgrade(&made));
        made
    }

    /// Ends all watches, including those that have just lost their last listener, and refuses new
    /// ones. Returns when the cluster has removed the watches, or after [`END_PATIENCE`] without an
    /// answer.
    pub async fn end(&self) {
        // Request the permits first, so that later watches wait behind this request.
        let all = self.open.acquire_many(MAX_MAILBOXES as u32);
        let ending = join_all(self.watched().into_iter().map(|mailbox| async move {
            mailbox.end().await;
        }));
        let _held = tokio::time::timeout(END_PATIENCE, join(all, ending)).await;
        self.open.close();
    }

    fn watched(&self) -> Vec<Arc<Mailbox>> {
        let mailboxes = self.mailboxes.lock().unwrap_or_else(PoisonError::into_inner);
        mailboxes.values().filter_map(Weak::upgrade).collect()
    }
}

/// The stream of a watcher's events. Dropping it ends the watch.
struct Events {
    queue: Arc<EventQueue>,
    _mailbox: Arc<Mailbox>,
    _permit: OwnedSemaphorePermit,
}

impl Stream for Events {
    type Item = WatchEvent;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<WatchEvent>> {
        self.queue.poll(context)
    }
}
