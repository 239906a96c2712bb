//! Sequencers as a kind of hosted machine.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use nacre_host::{Hosting, RecordStore, Slot, is_transient};
use nacre_object::{Error, Result};

use super::recovery;
use crate::LogName;
use crate::core::{RecoveryCommand, RecoveryCore, RecoveryEvent, SequencerCore};
use crate::env::LogEnv;
use crate::limits::MAX_HOSTED_LOGS;
use crate::view::View;

/// The sequencers of logs, over what a log needs.
#[derive(Debug)]
pub(super) struct Sequencers(pub LogEnv);

/// A log on a node.
pub(super) type LogSlot = Slot<Sequencers>;

#[async_trait]
impl Hosting for Sequencers {
    type Record = View;
    type Recovery = RecoveryCore;
    type Machine = SequencerCore;
    type Beside = Beside;
    const MAX_HOSTED: usize = MAX_HOSTED_LOGS;

    fn records(&self) -> &dyn RecordStore<View> {
        &*self.0.views
    }

    async fn carry_out(&self, command: RecoveryCommand) -> Result<RecoveryEvent> {
        recovery::carry_out(&self.0, command).await
    }

    fn machine(&self, view: View, tail: u64) -> SequencerCore {
        SequencerCore::new(view, tail).with_policies(Arc::clone(&self.0.policies))
    }

    fn gave_up(&self, log: &LogName, recovery: Option<&RecoveryCore>) -> Error {
        recovery::gave_up(&self.0, log, recovery)
    }
}

/// What a node stores beside each sequencer.
#[derive(Debug, Default)]
pub(super) struct Beside {
    /// The extension of the log's last range.
    pub extension: Extension,
    /// Requests that read the tail, since the node started.
    pub reads: AtomicU64,
    /// Requests that moved the tail, since the node started.
    pub writes: AtomicU64,
    /// How many clients wait for the tail to move.
    pub followers: AtomicUsize,
    /// Counts the holders' polls. A new poll ends the wait of the one before.
    pub holds: AtomicU64,
}

/// Whether a log's last range is being extended.
#[derive(Debug, Default)]
pub(super) struct Extension {
    is_under_way: AtomicBool,
    /// Why the last extension failed, if it would fail again, for example on a full disk.
    refusal: Mutex<Option<Error>>,
}

impl Extension {
    /// Whether the caller is to extend the log.
    pub fn start(&self) -> bool {
        let starts = !self.is_under_way.swap(true, Ordering::AcqRel);
        if starts {
            // Forget why the last attempt failed, because the disk may have free space again. A
            // task that wakes during this attempt must not fail for the old reason.
            *self.last_refusal() = None;
        }
        starts
    }

    /// Ends an extension. The caller then wakes the waiting tasks, which may start another one.
    pub fn end(&self, result: Result<()>) {
        let refusal = result.err().filter(|error| !is_transient(error));
        *self.last_refusal() = refusal;
        self.is_under_way.store(false, Ordering::Release);
    }

    /// Why no stripe can be added, as of the last attempt.
    pub fn refusal(&self) -> Option<Error> {
        self.last_refusal().clone()
    }

    fn last_refusal(&self) -> MutexGuard<'_, Option<Error>> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
