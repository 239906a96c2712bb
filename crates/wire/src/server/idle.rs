//! Bounds the number of idle connections.
//!
//! A connection is idle until a session opens or a call comes in, and again after the last of these
//! has ended. The server keeps at most `MAX_IDLE_CONNECTIONS`. When there is one more, the server
//! closes the connection that has been idle longest. So peers that connect and send nothing keep no
//! client out, however many they are.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{oneshot, watch};

use crate::limits::MAX_IDLE_CONNECTIONS;

/// The idle connections of a server, in the order in which they became idle.
#[derive(Debug, Default)]
pub(crate) struct IdleConnections(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    last: u64,
    waiting: BTreeMap<u64, oneshot::Sender<()>>,
}

/// One connection's entry among the idle ones, until it is dropped.
pub(crate) struct IdleSlot<'a> {
    idle: &'a IdleConnections,
    number: u64,
    evicted: oneshot::Receiver<()>,
}

impl IdleConnections {
    /// Adds a connection as the newest idle one. If there are too many now, the server closes the
    /// oldest one.
    pub(crate) fn enter(&self) -> IdleSlot<'_> {
        let (evict, evicted) = oneshot::channel();
        let mut queue = self.lock();
        queue.last += 1;
        let number = queue.last;
        queue.waiting.insert(number, evict);
        if queue.waiting.len() > MAX_IDLE_CONNECTIONS {
            queue.waiting.pop_first();
        }
        IdleSlot { idle: self, number, evicted }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IdleSlot<'_> {
    /// Waits until the server closes the connection to make room for a newer one.
    pub(crate) async fn lost(&mut self) {
        let _ = (&mut self.evicted).await;
    }
}

impl Drop for IdleSlot<'_> {
    fn drop(&mut self) {
        self.idle.lock().waiting.remove(&self.number);
    }
}

/// How many sessions and calls use one connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Activity(Arc<Goings>);

#[derive(Debug, Default)]
struct Goings {
    on: watch::Sender<usize>,
    asked: AtomicBool,
}

/// Something that is going on, until it is dropped.
#[derive(Debug)]
pub(crate) struct Busy(Activity);

impl Activity {
    /// Something begins.
    pub(crate) fn begin(&self) -> Busy {
        self.0.on.send_modify(|count| *count += 1);
        Busy(self.clone())
    }

    /// Notes that the client has sent a request, whatever its outcome.
    pub(crate) fn ask(&self) {
        self.0.asked.store(true, Ordering::Relaxed);
    }

    /// Whether anything was ever asked.
    pub(crate) fn was_asked(&self) -> bool {
        self.0.asked.load(Ordering::Relaxed)
    }

    /// Waits until something is going on, or nothing is.
    pub(crate) async fn until(&self, any: bool) {
        let mut count = self.0.on.subscribe();
        let _ = count.wait_for(|count| (*count > 0) == any).await;
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.0.on.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn one_connection_too_many_closes_the_one_idle_longest() {
        let idle = IdleConnections::default();
        let mut slots: Vec<_> = (0..MAX_IDLE_CONNECTIONS).map(|_| idle.enter()).collect();
        drop(slots.remove(0));
        let _fills_up = idle.enter();
        assert!(slots[0].lost().now_or_never().is_none());
        let _one_too_many = idle.enter();
        assert!(slots[0].lost().now_or_never().is_some());
        assert!(slots[1].lost().now_or_never().is_none());
    }

    #[test]
    fn a_connection_is_busy_until_its_last_activity_ends() {
        let activity = Activity::default();
        let (one, two) = (activity.begin(), activity.begin());
        drop(one);
        assert!(activity.until(true).now_or_never().is_some());
        assert!(activity.until(false).now_or_never().is_none());
        drop(two);
        assert!(activity.until(false).now_or_never().is_some());
    }
}
