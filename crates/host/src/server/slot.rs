//! A node's slot for one machine. It holds the machine while the machine serves, and wakes the
//! tasks that wait for it.

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

/// The place of one machine on a node.
#[derive(Debug)]
pub struct Slot<K: Hosting> {
    /// `None` until this node is the authority, and after it was deposed.
    machine: Mutex<Option<K::Machine>>,
    /// Where questions are passed on to while the machine does not serve here.
    pub(super) forward: Mutex<Option<Forward>>,
    /// Held while the record is read or changed: one task at a time.
    work: tokio::sync::Mutex<()>,
    /// Told of every change of the machine and of its record.
    changed: Notify,
    /// What the take-over that is under way waits for.
    waits_for: Mutex<Option<Error>>,
    /// Whether this node takes the machine over from itself.
    pub(super) is_fencing: AtomicBool,
    /// What the kind keeps here.
    pub beside: K::Beside,
}

/// Why a node has no answer yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotReady {
    /// It is not, or no longer, or not known to be the authority.
    NotServing,
    /// The client's epoch does not fit.
    Epoch(EpochRefusal),
}

/// What a task finds that looks at a machine.
#[derive(Debug)]
pub enum Look<T> {
    /// What it waited for.
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

    /// What a take-over waits for, while one is under way.
    pub(super) fn waits_for(&self) -> Option<Error> {
        self.waits_for.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_waits_for(&self, reason: Option<Error>) {
        *self.waits_for.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }

    /// Wakes all who wait for the machine to change.
    pub fn tell_change(&self) {
        self.changed.notify_waiters();
    }

    /// A future that ends at the next change of the machine. Enable it before you look at the
    /// machine, so that you miss no change in between.
    pub fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Looks at the machine until `look` finds what the task waits for. Looks again at each change,
    /// and when a deadline is due. Returns `None` if `look` has found nothing by the time `end`.
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

    /// Waits until no other task reads or changes the record; the task that holds this is alone.
    pub async fn alone(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.work.lock().await
    }

    /// Replaces the machine and wakes all who wait.
    pub fn install(&self, machine: Option<K::Machine>) {
        if machine.is_some() {
            self.set_forward(None);
        }
        *self.machine() = machine;
        self.tell_change();
    }

    /// Goes on by the record that is stored. Returns whether this node is still the authority.
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

    /// Goes on by the record there is.
    pub(super) fn resume(&self) {
        let record = self.machine().as_ref().map(|machine| machine.serving().record().clone());
        if let Some(record) = record {
            self.adopt(record);
        }
    }
}
