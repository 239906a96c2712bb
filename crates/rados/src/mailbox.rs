//! A watched mailbox, and who listens to which object in it.
//!
//! The watch in the cluster lasts as long as somebody listens. When it breaks (the OSD is gone, the
//! client was cut off) it is made again, and then everybody hears `Lost`. **Invariant:** `Lost` comes
//! after the watch is there again, so what is read on hearing it misses nothing unsaid.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use nacre_object::{EventQueue, Result, WatchEvent};
use nacre_rados_layout::decode_letter;
use tokio::runtime::Handle;

use crate::failure::operation_failed;
use crate::ffi::{Change, IoContext, Listener, WatchId};

/// A watcher that is not heard of for so long is forgotten by the cluster, as Ceph has it.
const WATCH_TIMEOUT: Duration = Duration::from_secs(30);
/// Between attempts to make a watch again: the cluster is busy with what broke it.
const REOPEN_INTERVAL: Duration = Duration::from_millis(500);

/// A mailbox that is watched.
#[derive(Debug)]
pub struct Mailbox {
    context: Arc<IoContext>,
    name: String,
    runtime: Handle,
    watch: tokio::sync::Mutex<Option<WatchId>>,
    queues: Mutex<HashMap<String, Vec<Weak<EventQueue>>>>,
}

/// How librados reaches a mailbox, as long as somebody listens.
struct Slot(Weak<Mailbox>);

impl Mailbox {
    /// A mailbox that is not watched yet.
    pub fn new(context: Arc<IoContext>, name: String) -> Self {
        let (watch, queues) = Default::default();
        Self { context, name, runtime: Handle::current(), watch, queues }
    }

    /// Adds a listener to letters about `object`; when this returns it misses none.
    ///
    /// # Errors
    /// `Unavailable`, and what else a watch may fail with.
    pub async fn listen(self: &Arc<Self>, object: &str) -> Result<Arc<EventQueue>> {
        let mut watch = self.watch.lock().await;
        if watch.is_none() {
            *watch = Some(self.open().await.map_err(operation_failed)?);
        }
        let queue = Arc::new(EventQueue::default());
        let mut queues = self.queues();
        queues.retain(|_, queues| {
            queues.retain(|queue| queue.strong_count() > 0);
            !queues.is_empty()
        });
        queues.entry(object.to_owned()).or_default().push(Arc::downgrade(&queue));
        Ok(queue)
    }

    async fn open(self: &Arc<Self>) -> Result<WatchId, i32> {
        let answer = self.context.apply(&self.name, &[Change::Create]).await;
        if answer.status < 0 {
            return Err(answer.status);
        }
        let slot = Arc::new(Slot(Arc::downgrade(self)));
        self.context.watch(&self.name, WATCH_TIMEOUT, slot).await
    }

    /// Makes a broken watch again, unless everybody has gone meanwhile.
    async fn reopen(mailbox: Weak<Self>) {
        while let Some(mailbox) = mailbox.upgrade() {
            let mut watch = mailbox.watch.lock().await;
            if let Some(broken) = watch.take() {
                mailbox.context.unwatch(broken).await;
            }
            if let Ok(opened) = mailbox.open().await {
                *watch = Some(opened);
                mailbox.tell_all(&WatchEvent::Lost);
                return;
            }
            drop(watch);
            drop(mailbox);
            tokio::time::sleep(REOPEN_INTERVAL).await;
        }
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<String, Vec<Weak<EventQueue>>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, object: &str, event: &WatchEvent) {
        for queue in self.queues().get(object).into_iter().flatten().filter_map(Weak::upgrade) {
            queue.push(event.clone());
        }
    }

    fn tell_all(&self, event: &WatchEvent) {
        for queue in self.queues().values().flatten().filter_map(Weak::upgrade) {
            queue.push(event.clone());
        }
    }
}

impl Listener for Slot {
    fn notified(&self, letter: &[u8]) {
        let Some(mailbox) = self.0.upgrade() else { return };
        if let Some((object, start)) = decode_letter(letter) {
            let payload = Bytes::copy_from_slice(&letter[start..]);
            mailbox.tell(object, &WatchEvent::Notified { payload });
        }
    }

    fn broken(&self) {
        if let Some(mailbox) = self.0.upgrade() {
            mailbox.runtime.spawn(Mailbox::reopen(self.0.clone()));
        }
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.get_mut().take() {
            let context = self.context.clone();
            self.runtime.spawn(async move { context.unwatch(watch).await });
        }
    }
}
