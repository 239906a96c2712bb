//! The byte stream within a transaction: a [`DraftStream`] over the stored stream.

use bytes::Bytes;
use nacre_object::Result;
use nacre_object::limits::MAX_OBJECT_BYTES;
use nacre_rados_layout::{DraftStream, Patch};

use crate::{Change, OsdObject};

/// A byte stream as a transaction has made it so far.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// The size of the stored stream.
    stored_size: u64,
    draft: DraftStream,
}

impl Stream {
    /// A stored stream of this size, without changes.
    pub fn stored(size: u64) -> Self {
        Self { stored_size: size, draft: DraftStream::unchanged(size) }
    }

    /// Its size now.
    pub fn size(&self) -> u64 {
        self.draft.size()
    }

    /// Bytes `offset..end`, cut at its end.
    pub fn read(&self, offset: u64, end: u64, object: &mut dyn OsdObject) -> Result<Bytes> {
        let (offset, end) = (offset.min(self.size()), end.min(self.size()));
        let (start, base) = match self.draft.needed(offset, end) {
            Some((start, behind)) => (start, object.read(start, behind - start)?),
            None => (offset, Bytes::new()),
        };
        Ok(self.draft.read(offset, end, start, &base))
    }

    /// Puts bytes, extending it if need be.
    pub fn write(&mut self, offset: u64, data: Bytes) {
        self.draft.write(offset, data);
    }

    /// Replaces the whole stream.
    pub fn write_full(&mut self, data: Bytes) {
        self.draft.write_full(data);
    }

    /// Cuts or extends it.
    pub fn truncate(&mut self, size: u64) {
        self.draft.truncate(size);
    }

    /// Makes `offset..end`, cut at its end, zeros.
    pub fn zero(&mut self, offset: u64, end: u64) {
        let (offset, end) = (offset.min(self.size()), end.min(self.size()));
        self.draft.zero(offset, end);
    }

    /// The changes that give the stored stream its new state.
    pub fn changes(self) -> Vec<Change> {
        if let Some(data) = self.draft.whole() {
            return vec![Change::WriteFull(data.clone())];
        }
        let (size, base_end) = (self.draft.size(), self.draft.base_end());
        let mut changes = Vec::new();
        let mut end = self.stored_size;
        if base_end < end {
            changes.push(Change::Truncate(base_end));
            end = base_end;
        }
        for (offset, patch) in self.draft.into_patches() {
            match patch {
                Patch::Data(data) => {
                    end = end.max(offset + data.len() as u64);
                    changes.push(Change::Write { offset, data });
                }
                Patch::Zeros(length) if offset + length < end => {
                    changes.push(Change::Zero { offset, length });
                }
                // Unwritten bytes behind the end are zero.
                Patch::Zeros(_) if offset < end => {
                    changes.push(Change::Truncate(offset));
                    end = offset;
                }
                Patch::Zeros(_) => {}
            }
        }
        if end != size {
            changes.push(resized(size));
        }
        changes
    }
}

/// The change that gives the data another size.
fn resized(size: u64) -> Change {
    if size < MAX_OBJECT_BYTES {
        return Change::Truncate(size);
    }
    // An OSD can extend the data up to its limit only by a write.
    Change::Write { offset: size - 1, data: Bytes::from_static(&[0]) }
}
