//! Queues the writes to each object, so that writes that must wait are sent in one call.
//!
//! A record is sent at once unless enough calls on its object are in flight. Then it waits, and
//! shares the next call with the records that arrive meanwhile. No record waits only so that a call
//! has more records.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::append::Append;
use crate::env::Batching;
use crate::limits::{MAX_WRITE_BYTES, MAX_WRITE_ENTRIES};
use crate::view::EntryLocation;

/// A write that waits: the append, its position, and the epoch of the write.
#[derive(Debug)]
pub(super) struct Write {
    pub append: Append,
    pub position: u64,
    pub epoch: u64,
}

#[derive(Debug, Default)]
struct WriteQueue {
    waiting: VecDeque<Write>,
    calls: usize,
}

/// The write queues of a log's objects. A queue exists while a write waits in it or a call on its
/// object is in flight.
#[derive(Debug)]
pub(super) struct WriteQueues {
    queues: Mutex<HashMap<EntryLocation, WriteQueue>>,
    batching: Batching,
}

impl WriteQueues {
    pub fn new(batching: Batching) -> Self {
        let batching = Batching {
            calls: batching.calls.max(1),
            records: batching.records.clamp(1, MAX_WRITE_ENTRIES),
            bytes: batching.bytes.min(MAX_WRITE_BYTES),
        };
        Self { queues: Mutex::default(), batching }
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<EntryLocation, WriteQueue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues writes for an object. Returns whether the caller must start a task that sends batches
    /// from the queue until it is empty.
    #[must_use]
    pub fn push(&self, place: EntryLocation, writes: impl IntoIterator<Item = Write>) -> bool {
        let mut queues = self.queues();
        let queue = queues.entry(place).or_default();
        queue.waiting.extend(writes);
        let starts = queue.calls < self.batching.calls;
        queue.calls += usize::from(starts);
        starts
    }

    /// Takes the writes of the next call. All have the same epoch. If there are none, the calling
    /// task must end: it no longer counts as a sender of this object.
    pub fn take(&self, place: EntryLocation) -> Vec<Write> {
        let mut queues = self.queues();
        let Some(queue) = queues.get_mut(&place) else { return vec![] };
        let batch = take_batch(&mut queue.waiting, self.batching);
        if batch.is_empty() {
            queue.calls -= 1;
            if queue.calls == 0 {
                queues.remove(&place);
            }
        }
        batch
    }

    /// Takes all writes that wait for an object, but not the writes in flight.
    pub fn drain(&self, place: EntryLocation) -> Vec<Write> {
        let mut queues = self.queues();
        queues.get_mut(&place).map(|queue| queue.waiting.drain(..).collect()).unwrap_or_default()
    }
}

fn take_batch(waiting: &mut VecDeque<Write>, batching: Batching) -> Vec<Write> {
    let Some(epoch) = waiting.front().map(|write| write.epoch) else { return vec![] };
    let mut bytes = 0;
    let fits = |write: &&Write| {
        bytes += write.append.entry.len();
        write.epoch == epoch && bytes <= batching.bytes
    };
    let count = waiting.iter().take(batching.records).take_while(fits).count();
    waiting.drain(..count.max(1)).collect()
}
