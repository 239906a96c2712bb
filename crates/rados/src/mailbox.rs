//! A mailbox: one RADOS object that this process watches in place of many objects, and the
//! listeners for these objects in this process.
//!
//! The mailbox keeps its watch in the cluster as long as it has listeners. If the watch breaks
//! (because the OSD died or the client was cut off), the mailbox watches its object again, and then
//! sends every listener `Lost`. It also sends `Lost` after a *lapse*: a time in which the cluster
//! was silent for so long that it may have dropped a notification.
//!
//! **Invariants:**
//! - `Lost` comes after the watch is established again, so a listener that reads then misses no
//!   later change.
//! - Each watch holds a permit until the cluster has removed the watch. So when all permits are
//!   free, no watch is left.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use nacre_object::{Error, EventQueue, Result, WatchEvent};
use nacre_rados_layout::decode_letter;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::cluster::failure::{operation_failed, status};
use crate::ffi::{Change, IoContext, Listener, WatchId};

/// The cluster forgets a watcher that it has not heard of for this long, Ceph's default.
const WATCH_TIMEOUT: Duration = Duration::from_secs(30);
/// The cluster does not wait longer than this for a watcher to acknowledge a notification. The
/// watcher then gets `Lost`.
pub const NOTIFY_TIMEOUT: Duration = Duration::from_secs(8);
/// How often the cluster is asked whether a watch still exists. This is Ceph's default
/// (`objecter_tick_interval`).
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// If the cluster was silent for longer than this (a *lapse*), it has possibly dropped a
/// notification.
const LAPSE: Duration = Duration::from_millis(6_500);
/// How often the mailbox checks how long the cluster has been silent. The cluster drops a
/// notification after [`NOTIFY_TIMEOUT`] of silence. The interval is shorter than the time from
/// [`LAPSE`] to [`NOTIFY_TIMEOUT`], so a check notices every such silence.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

const _: () = assert!(PING_INTERVAL.as_millis() < LAPSE.as_millis());
const _: () = assert!(LAPSE.as_millis() + LOOK_INTERVAL.as_millis() < NOTIFY_TIMEOUT.as_millis());
const _: () = assert!(NOTIFY_TIMEOUT.as_millis() < WATCH_TIMEOUT.as_millis());

/// The pause between attempts to watch again. The cluster needs some time to handle the failure
/// that broke the watch.
const REOPEN_INTERVAL: Duration = Duration::from_millis(500);

/// A mailbox that is watched.
#[derive(Debug)]
pub struct Mailbox {
    context: Arc<IoContext>,
    name: String,
    runtime: Handle,
    /// Permits for watches in the cluster; closed when no new watches are allowed.
    permits: Arc<Semaphore>,
    /// How long the cluster has for making a watch.
    patience: Duration,
    watch: tokio::sync::Mutex<Option<OpenWatch>>,
    queues: Mutex<HashMap<String, Vec<Weak<EventQueue>>>>,
}

/// A watch that the cluster knows of.
#[derive(Debug)]
struct OpenWatch {
    id: WatchId,
    _permit: OwnedSemaphorePermit,
}

/// The handle by which librados reaches a mailbox, as long as the mailbox has listeners.
struct Slot(Weak<Mailbox>);

impl Mailbox {
    /// A mailbox that is not watched yet.
    pub fn new(
        context: Arc<IoContext>,
        name: String,
        permits: Arc<Semaphore>,
        patience: Duration,
    ) -> Self {
        let (watch, queues) = Default::default();
        Self { context, name, runtime: Handle::current(), permits, patience, watch, queues }
    }

    /// Adds a listener for notifications about `object`. After this function has returned, the
    /// listener misses no notification.
    ///
    /// # Errors
    /// `Unavailable` if the cluster does not answer, or if the engine is being closed; any other
    /// error of RADOS.
    pub async fn listen(self: &Arc<Self>, object: &str) -> Result<Arc<EventQueue>> {
        // A separate task opens the watch. If the caller stops waiting, the watch still belongs to
        // the mailbox, and ends together with the mailbox.
        let opened = self.runtime.spawn(self.clone().watched()).await;
        opened.unwrap_or_else(|_| Err(closed()))?;
        let queue = Arc::new(EventQueue::default());
        let mut queues = self.queues();
        queues.retain(|_, queues| {
            queues.retain(|queue| queue.strong_count() > 0);
            !queues.is_empty()
        });
        queues.entry(object.to_owned()).or_default().push(Arc::downgrade(&queue));
        Ok(queue)
    }

    /// Ends the watch. Listeners get nothing from then on.
    pub async fn end(&self) {
        if let Some(watch) = self.watch.lock().await.take() {
            self.context.unwatch(watch.id).await;
        }
    }

    /// Makes the watch if there is none.
    async fn watched(self: Arc<Self>) -> Result<()> {
        let mut watch = self.watch.lock().await;
        if watch.is_none() {
            *watch = Some(self.open().await?);
        }
        Ok(())
    }

    async fn open(self: &Arc<Self>) -> Result<OpenWatch> {
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| closed())?;
        let answer = self.context.apply(&self.name, &[Change::Create]).await;
        if answer.status < 0 {
            return Err(operation_failed(answer.status));
        }
        let (context, name) = (self.context.clone(), self.name.clone());
        let slot = Arc::new(Slot(Arc::downgrade(self)));
        let mut opening = self.runtime.spawn(async move {
            let id = context.watch(&name, WATCH_TIMEOUT, slot).await;
            Ok(OpenWatch { id: id.map_err(operation_failed)?, _permit: permit })
        });
        // librados does not give up a watch: it waits for the object's OSD without a deadline.
        match timeout(self.patience, &mut opening).await {
            Ok(opened) => {
                let opened = opened.unwrap_or_else(|_| Err(closed()))?;
                self.runtime.spawn(Self::attend(Arc::downgrade(self), opened.id));
                Ok(opened)
            }
            Err(_) => {
                self.runtime.spawn(end_late(self.context.clone(), opening));
                Err(operation_failed(status::TIMED_OUT))
            }
        }
    }

    /// Runs as long as the watch lasts. When the cluster answers again after a lapse, sends `Lost`
    /// to all listeners.
    async fn attend(mailbox: Weak<Self>, id: WatchId) {
        let mut lapsed = false;
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            let Some(mailbox) = mailbox.upgrade() else { return };
            // The watch does not end meanwhile.
            let watch = mailbox.watch.lock().await;
            let is_same = watch.as_ref().is_some_and(|watch| watch.id == id);
            let silence = if is_same { mailbox.context.silence(id) } else { None };
            // `reopen` replaces a broken watch.
            let Some(silence) = silence else { return };
            let was_lapsed = std::mem::replace(&mut lapsed, silence > LAPSE);
            if was_lapsed && !lapsed {
                mailbox.tell_all(&WatchEvent::Lost);
            }
        }
    }

    /// Makes a broken watch again, unless all listeners have gone meanwhile.
    async fn reopen(mailbox: Weak<Self>) {
        while let Some(mailbox) = mailbox.upgrade() {
            let mut watch = mailbox.watch.lock().await;
            if let Some(broken) = watch.take() {
                mailbox.context.unwatch(broken.id).await;
            }
            if let Ok(opened) = mailbox.open().await {
                *watch = Some(opened);
                mailbox.tell_all(&WatchEvent::Lost);
                return;
            }
            if mailbox.permits.is_closed() {
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
            self.runtime.spawn(async move {
                context.unwatch(watch.id).await;
                drop(watch);
            });
        }
    }
}

/// Ends a watch that is made after its caller stopped waiting.
async fn end_late(context: Arc<IoContext>, opening: JoinHandle<Result<OpenWatch>>) {
    if let Ok(Ok(watch)) = opening.await {
        context.unwatch(watch.id).await;
    }
}

fn closed() -> Error {
    Error::unavailable("the engine is closed").hint("connect again")
}
