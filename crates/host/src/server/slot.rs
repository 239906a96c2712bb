//! A node's slot for one state machine. It contains the machine while this node serves it, and
//! wakes the tasks that wait for a change.

use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nacre_object::Error;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::{Instant, timeout_at};

use super::forwarding::Forward;
use super::hosting::Hosting;
use crate::core::{EpochRefusal, Machine};

/// The slot of one machine on a node.
#[derive(Debug)]
pub struct Slot<K: Hosting> {
    /// `None` until this node is the authority, and after it was deposed.
    machine: Mutex<Option<K::Machine>>,
    /// Where this node forwards requests while it does not serve the machine itself.
    pub(super) forward: Mutex<Option<Forward>>,
    /// Locked while a task reads or changes the record, so that only one task does.
    work: tokio::sync::Mutex<()>,
    /// Notified of every change of the machine and of its record.
    changed: Notify,
    /// What the current takeover waits for.
    waits_for: Mutex<Option<Error>>,
    /// Whether this node takes the machine over from itself.
    pub(super) is_fencing: AtomicBool,
    /// What the kind of machine stores here.
    pub beside: K::Beside,
}

/// Why a node has no answer yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotReady {
    /// The node does not know itself to be the authority.
    NotServing,
    /// The client's epoch does not fit.
    Epoch(EpochRefusal),
}

/// The result of one look at a machine by a task that waits.
#[derive(Debug)]
pub enum Look<T> {
    /// What the task waited for.
    Found(T),
    /// Nothing yet. The task looks again at the next change, and at this time.
    Wait(Option<Instant>),
}

impl<K: Hosting> Default for Slot<K> {
    fn default() -> Self {
        Self {
            machine: Mutex::default(),
            forward: Mutex::default(),
            work: tokio::sync::Mutex::default(),
            changed: Notify::default(),
            waits_for: Mutex::default(),
            is_fencing: AtomicBool::new(false),
            beside: K::Beside::default(),
        }
    }
}

impl<K: Hosting> Slot<K> {
    /// The machine; `None` if it does not serve here.
    pub fn machine(&self) -> MutexGuard<'_, Option<K::Machine>> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the current takeover waits for.
    pub(super) fn waits_for(&self) -> Option<Error> {
        self.waits_for.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_waits_for(&self, reason: Option<Error>) {
        *self.waits_for.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }

    /// Wakes all tasks that wait for the machine to change.
    pub fn tell_change(&self) {
        self.changed.notify_waiters();
    }

    /// A future that ends when the state machine changes. Enable the future before you look at the
    /// machine, so that you miss no change in between.
    pub fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Calls `look` until it finds what the task waits for. Calls it again at each change of the
    /// state machine, and at the time that `look` returned. Returns `None` if `look` has found
    /// nothing by `end`.
    pub async fn look_until<T>(
        &self,
        end: Instant,
        mut look: impl FnMut() -> Look<T>,
    ) -> Option<T> {
        loop {
            let mut changed = pin!(self.changed());
            changed.as_mut().enable();
            let due_at = match look() {
                Look::Found(found) => return Some(found),
                Look::Wait(due_at) => due_at.map_or(end, |due_at| due_at.min(end)),
            };
            let is_over = timeout_at(due_at, changed).await.is_err();
            if is_over && Instant::now() >= end {
                return None;
            }
        }
    }

    /// Waits until no other task reads or changes the record. Keeps others out until the guard drops.
    pub async fn alone(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.work.lock().await
    }

    /// Replaces the machine and wakes all waiting tasks.
    pub fn install(&self, machine: Option<K::Machine>) {
        if machine.is_some() {
            self.set_forward(None);
        }
        *self.machine() = machine;
        self.tell_change();
    }

    /// Serves under the stored record from now on. Returns whether this node is still the authority.
    pub fn adopt(&self, stored: K::Record) -> bool {
        let mut machine = self.machine();
        let serves = machine.as_mut().is_some_and(|machine| machine.serve(stored));
        if !serves {
            *machine = None;
        }
        drop(machine);
        self.tell_change();
        serves
    }

    /// Continues to serve under the record that the machine already has.
    pub(super) fn resume(&self) {
        let record = self.machine().as_ref().map(|machine| machine.serving().record().clone());
        if let Some(record) = record {
            self.adopt(record);
        }
    }
}
