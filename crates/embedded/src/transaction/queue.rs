//! The queue of a shard. Clients' threads add requests, and the shard's thread takes all of them at
//! once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use nacre_object::{Error, Request, Result};
use tokio::sync::oneshot;

use crate::entry::key::{Key, NodeId};
use crate::transaction::commit::Answer;

/// A request, and where its reply goes.
#[derive(Debug)]
pub(crate) struct Asked {
    pub request: Box<Request>,
    pub answer: Answer,
}

/// Something for a shard to do.
#[derive(Debug)]
pub(crate) enum Work {
    Request(Asked),
    /// Delete some entries of a dropped node. The reply says whether all of them are gone.
    Reclaim {
        node: NodeId,
        reply: oneshot::Sender<Result<bool>>,
    },
    /// Move the payloads that these table entries have in a segment to the end of the journal. The
    /// reply says how many bytes were moved.
    Relocate {
        segment: u32,
        owners: Vec<Key>,
        reply: oneshot::Sender<Result<u64>>,
    },
}

#[derive(Debug, Default)]
struct State {
    works: Vec<Work>,
    is_closed: bool,
    is_waiting: bool,
}

/// A shard's queue. Permits, which each request must hold, bound its memory.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    /// Works waiting or being run.
    length: AtomicU64,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// # Errors
    /// `Unavailable` once closed.
    pub fn push(&self, work: Work) -> Result<()> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(closed());
        }
        state.works.push(work);
        self.length.fetch_add(1, Ordering::Relaxed);
        let wake = std::mem::take(&mut state.is_waiting);
        drop(state);
        if wake {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Waits until something is queued; `false` once closed and empty.
    pub fn wait(&self) -> bool {
        let mut state = self.lock();
        while state.works.is_empty() {
            if state.is_closed {
                return false;
            }
            state.is_waiting = true;
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    /// Swaps everything queued into `works`, which is empty.
    pub fn take_all(&self, works: &mut Vec<Work>) {
        std::mem::swap(&mut self.lock().works, works);
    }

    /// Notes that the shard has done this many works.
    pub fn done(&self, works: usize) {
        self.length.fetch_sub(works as u64, Ordering::Relaxed);
    }

    /// Works waiting or being run.
    pub fn len(&self) -> u64 {
        self.length.load(Ordering::Relaxed)
    }

    /// Closes the queue. The shard still does the work that is queued.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_all();
    }
}

/// The error of asking an engine that was closed.
pub(crate) fn closed() -> Error {
    Error::unavailable("this store is closed").hint("open it again")
}
