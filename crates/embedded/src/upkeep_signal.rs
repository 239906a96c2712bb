//! How others tell the upkeep thread that there is something to do.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// What woke the upkeep thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Somebody asked.
    Asked,
    /// Nobody did for the whole time.
    Idle,
    /// The engine closes.
    Closing,
}

/// A door bell: rung by shards, answered by the upkeep thread.
#[derive(Debug, Default)]
pub(crate) struct UpkeepSignal {
    state: Mutex<State>,
    rung: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_asked: bool,
    is_closing: bool,
}

impl UpkeepSignal {
    /// Has the thread look for work soon.
    pub fn ask(&self) {
        self.set(|state| state.is_asked = true);
    }

    /// Has the thread end.
    pub fn close(&self) {
        self.set(|state| state.is_closing = true);
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.rung.notify_one();
    }

    pub fn is_closing(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_closing
    }

    /// Waits to be asked, at most so long.
    pub fn wait(&self, at_most: Duration) -> Wake {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let quiet = |state: &mut State| !state.is_asked && !state.is_closing;
        let (mut state, timeout) = self
            .rung
            .wait_timeout_while(state, at_most, quiet)
            .unwrap_or_else(PoisonError::into_inner);
        if state.is_closing {
            return Wake::Closing;
        }
        state.is_asked = false;
        if timeout.timed_out() { Wake::Idle } else { Wake::Asked }
    }
}
