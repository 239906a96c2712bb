//! `Slot`: reserved space in the filling group, into which a shard puts one record.

use std::sync::MutexGuard;

use super::record::{RecordAddress, RecordBuilder};
use super::{Journal, State};
use crate::transaction::commit::{PendingReply, Recorded};

/// Space for one record. The journal stays locked until the slot is filled or dropped.
pub(crate) struct Slot<'a> {
    journal: &'a Journal,
    state: MutexGuard<'a, State>,
    place: RecordAddress,
}

impl<'a> Slot<'a> {
    pub(super) fn new(
        journal: &'a Journal,
        state: MutexGuard<'a, State>,
        place: RecordAddress,
    ) -> Self {
        Self { journal, state, place }
    }

    /// Where the record will lie.
    pub fn place(&self) -> RecordAddress {
        self.place
    }

    /// Puts the record into the slot. The committer gets the record's changes to the tables and the
    /// reply that waits for its sync.
    pub fn fill(mut self, builder: &RecordBuilder, recorded: Recorded, held: PendingReply) {
        let group = &mut self.state.filling;
        builder.append_to(&mut group.bytes, self.place.group);
        group.records += 1;
        self.state.waiting.recorded.push(recorded);
        self.state.waiting.held.push(held);
        self.journal.wake_committer(self.state);
    }
}
