//! One log on a host: its sequencer, if it serves, and who waits for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nacre_object::{Error, Result};
use tokio::sync::Notify;

use super::messages::is_transient;
use crate::core::{Grant, SequencerCore, TokenRefusal};
use crate::view::View;

/// A log on a host.
#[derive(Debug, Default)]
pub(super) struct Hosted {
    /// `None` until this node is the log's sequencer, and after it was deposed.
    core: Mutex<Option<SequencerCore>>,
    /// Held by whoever changes the view: one at a time.
    pub work: tokio::sync::Mutex<()>,
    /// Whether an extension is under way.
    pub extending: AtomicBool,
    /// Why the last one failed, if it would fail again: there is no room, or no permission.
    refusal: Mutex<Option<Error>>,
    /// Told of every position handed out and of every change of view.
    pub changed: Notify,
}

/// Why a host has no answer yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotYet {
    /// It is not, or no longer, or not known to be the sequencer.
    NotServing,
    /// The sequencer says why.
    Refused(TokenRefusal),
}

impl Hosted {
    pub fn core(&self) -> MutexGuard<'_, Option<SequencerCore>> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the sequencer and wakes all who wait.
    pub fn install(&self, core: Option<SequencerCore>) {
        *self.core() = core;
        self.changed.notify_waiters();
    }

    /// Goes on with the view that is stored. Answers whether this node is still the sequencer.
    pub fn adopt(&self, stored: View) -> bool {
        let mut core = self.core();
        let serves = core.as_mut().is_some_and(|core| core.serve(stored));
        if !serves {
            *core = None;
        }
        drop(core);
        self.changed.notify_waiters();
        serves
    }

    /// Goes on with the view there is.
    pub fn resume(&self) {
        let view = self.core().as_ref().map(|core| core.view().clone());
        if let Some(view) = view {
            self.adopt(view);
        }
    }

    /// A grant, and whether the sequencer runs short of positions.
    pub fn next(&self, epoch: u64, count: u32) -> std::result::Result<(Grant, bool), NotYet> {
        let mut core = self.core();
        let serving = core.as_mut().ok_or(NotYet::NotServing)?;
        let grant = serving.next(epoch, count).map_err(NotYet::Refused)?;
        let is_short = serving.is_running_short();
        drop(core);
        self.changed.notify_waiters();
        Ok((grant, is_short))
    }

    /// The tail, with the epoch of the view that is served.
    pub fn tail(&self, epoch: u64) -> std::result::Result<(u64, u64), NotYet> {
        let core = self.core();
        let core = core.as_ref().ok_or(NotYet::NotServing)?;
        let tail = core.tail(epoch).map_err(NotYet::Refused)?;
        Ok((tail, core.view().epoch()))
    }

    /// Whether the caller is to start the extension.
    pub fn start_extending(&self) -> bool {
        let starts = !self.extending.swap(true, Ordering::AcqRel);
        if starts {
            // There may be room by now: whoever is woken before the attempt ends must not be refused.
            *self.last_refusal() = None;
        }
        starts
    }

    fn last_refusal(&self) -> MutexGuard<'_, Option<Error>> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever still waits looks again, and may start another.
    pub fn end_extending(&self, result: Result<()>) {
        let refusal = result.err().filter(|error| !is_transient(error));
        *self.last_refusal() = refusal;
        self.extending.store(false, Ordering::Release);
        self.changed.notify_waiters();
    }
    /// Why no stripe can be added, as of the last attempt.
    pub fn refusal(&self) -> Option<Error> {
        self.last_refusal().clone()
    }
}
