//! Wakes the upkeep thread when there is something to do.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nacre_object::{Error, Result};
use tokio::sync::oneshot;

use crate::transaction::queue::closed;

/// What woke the upkeep thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    /// A shard asked for work.
    Asked,
    /// A caller waits for a checkpoint.
    CheckpointAsked,
    /// The whole wait passed without a request.
    Idle,
    /// The engine closes.
    Closing,
}

/// Wakes the upkeep thread, and keeps the last failure of the upkeep.
#[derive(Debug, Default)]
pub(crate) struct UpkeepSignal {
    state: Mutex<State>,
    rung: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_asked: bool,
    is_closing: bool,
    /// Callers that wait for a checkpoint: of a later round, and of the running one.
    waiting: Vec<oneshot::Sender<Result<()>>>,
    answering: Vec<oneshot::Sender<Result<()>>>,
    /// How many times a part of the upkeep has failed.
    failures: u64,
    last_failure: Option<Error>,
}

impl UpkeepSignal {
    /// Has the thread look for work soon.
    pub fn ask(&self) {
        self.set(|state| state.is_asked = true);
    }

    /// Has the upkeep thread make a checkpoint, and waits for it.
    ///
    /// # Errors
    /// The reason why no checkpoint was made: an error of the disk, or the engine is closing.
    pub fn make_checkpoint(&self) -> Result<()> {
        let (answer, answered) = oneshot::channel();
        self.set(|state| {
            if !state.is_closing {
                state.waiting.push(answer);
            }
        });
        answered.blocking_recv().unwrap_or_else(|_| Err(closed()))
    }

    /// Sends the result of a round to the callers that waited for it.
    pub fn answer(&self, round: &Result<()>) {
        let mut state = self.lock();
        for answer in state.answering.drain(..) {
            // The caller may have gone.
            let _ = answer.send(round.clone());
        }
    }

    /// Has the thread end.
    pub fn close(&self) {
        self.set(|state| {
            state.is_closing = true;
            state.waiting.clear();
            state.answering.clear();
        });
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.rung.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_closing(&self) -> bool {
        self.lock().is_closing
    }

    /// Whether a caller waits for a checkpoint of the next round.
    pub fn is_checkpoint_asked(&self) -> bool {
        !self.lock().waiting.is_empty()
    }

    /// Says that a part of the upkeep failed.
    pub fn note_failure(&self, error: Error) {
        let mut state = self.lock();
        state.failures += 1;
        state.last_failure = Some(error);
    }

    /// How many times a part of the upkeep has failed.
    pub fn failures(&self) -> u64 {
        self.lock().failures
    }

    /// How a part of the upkeep failed last.
    pub fn last_failure(&self) -> Option<Error> {
        self.lock().last_failure.clone()
    }

    /// Waits until the thread is woken, at most this long.
    pub fn wait(&self, at_most: Duration) -> Wake {
        let state = self.lock();
        let quiet =
            |state: &mut State| !state.is_asked && state.waiting.is_empty() && !state.is_closing;
        let (mut state, timeout) = self
            .rung
            .wait_timeout_while(state, at_most, quiet)
            .unwrap_or_else(PoisonError::into_inner);
        if state.is_closing {
            return Wake::Closing;
        }
        state.is_asked = false;
        if !state.waiting.is_empty() {
            state.answering = std::mem::take(&mut state.waiting);
            return Wake::CheckpointAsked;
        }
        if timeout.timed_out() { Wake::Idle } else { Wake::Asked }
    }
}
