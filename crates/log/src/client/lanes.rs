//! One queue of writes for each object, so that writes that wait anyway travel together.
//!
//! A record that finds its object idle is sent at once. While a call is under way others gather,
//! and go together in the next. Nothing is ever delayed to gather more.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::append::Append;
use crate::env::Batching;
use crate::limits::{MAX_WRITE_BYTES, MAX_WRITE_ENTRIES};
use crate::view::Place;

/// A write that waits: the record, where it is to go, and under which epoch.
#[derive(Debug)]
pub(super) struct Write {
    pub append: Append,
    pub position: u64,
    pub epoch: u64,
}

#[derive(Debug, Default)]
struct Lane {
    waiting: VecDeque<Write>,
    calls: usize,
}

/// The lanes of a log's objects. A lane is there while anything is in it.
#[derive(Debug)]
pub(super) struct Lanes {
    lanes: Mutex<HashMap<Place, Lane>>,
    batching: Batching,
}

impl Lanes {
    pub fn new(batching: Batching) -> Self {
        let batching = Batching {
            calls: batching.calls.max(1),
            records: batching.records.clamp(1, MAX_WRITE_ENTRIES),
            bytes: batching.bytes.min(MAX_WRITE_BYTES),
        };
        Self { lanes: Mutex::default(), batching }
    }

    fn lanes(&self) -> MutexGuard<'_, HashMap<Place, Lane>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues writes for an object. Answers whether the caller is to start a call: take batches
    /// until there are none.
    #[must_use]
    pub fn push(&self, place: Place, writes: impl IntoIterator<Item = Write>) -> bool {
        let mut lanes = self.lanes();
        let lane = lanes.entry(place).or_default();
        lane.waiting.extend(writes);
        let starts = lane.calls < self.batching.calls;
        lane.calls += usize::from(starts);
        starts
    }

    /// The writes of the next call: all of one epoch. None ends the call's turn.
    pub fn take(&self, place: Place) -> Vec<Write> {
        let mut lanes = self.lanes();
        let Some(lane) = lanes.get_mut(&place) else { return vec![] };
        let batch = take_batch(&mut lane.waiting, self.batching);
        if batch.is_empty() {
            lane.calls -= 1;
            if lane.calls == 0 {
                lanes.remove(&place);
            }
        }
        batch
    }

    /// Takes everything that waits for an object, though not what is under way.
    pub fn drain(&self, place: Place) -> Vec<Write> {
        let mut lanes = self.lanes();
        lanes.get_mut(&place).map(|lane| lane.waiting.drain(..).collect()).unwrap_or_default()
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
