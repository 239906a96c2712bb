//! The byte stream within a transaction: what it was, cut, with patches over it.

use std::collections::BTreeMap;

use bytes::Bytes;
use nacre_object::Result;
use nacre_object::limits::MAX_OBJECT_BYTES;

use crate::{Change, OsdObject};

/// A byte stream as a transaction has made it so far.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// What it was in the OSD.
    stored_size: u64,
    size: u64,
    /// Bytes before this show what the stream was; those behind are zero where no patch is.
    base_end: u64,
    /// What was written, by its first byte. **Invariant:** patches are not empty, do not overlap, and
    /// end before `size`.
    patches: BTreeMap<u64, Patch>,
}

#[derive(Debug, Clone)]
enum Patch {
    Data(Bytes),
    Zeros(u64),
}

impl Patch {
    fn len(&self) -> u64 {
        match self {
            Self::Data(data) => data.len() as u64,
            Self::Zeros(length) => *length,
        }
    }

    fn slice(&self, from: u64, to: u64) -> Self {
        match self {
            Self::Data(data) => Self::Data(data.slice(from as usize..to as usize)),
            Self::Zeros(_) => Self::Zeros(to - from),
        }
    }
}

impl Stream {
    /// A stream that lies in the OSD with this size.
    pub fn stored(size: u64) -> Self {
        Self { stored_size: size, size, base_end: size, patches: BTreeMap::new() }
    }

    /// Its size now.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes `offset..end`, cut at its end.
    pub fn read(&self, offset: u64, end: u64, object: &mut dyn OsdObject) -> Result<Bytes> {
        let (offset, end) = (offset.min(self.size), end.min(self.size));
        let base_end = end.min(self.base_end);
        let base = match offset < base_end {
            true => object.read(offset, base_end - offset)?,
            false => Bytes::new(),
        };
        let patches = self.overlapping(offset, end);
        if patches.is_empty() && base.len() as u64 == end - offset {
            return Ok(base);
        }
        let mut whole = vec![0; (end - offset) as usize];
        let known = base.len().min(whole.len());
        whole[..known].copy_from_slice(&base[..known]);
        for (at, patch) in patches {
            let from = (at - offset) as usize;
            let place = &mut whole[from..from + patch.len() as usize];
            match patch {
                Patch::Data(data) => place.copy_from_slice(&data),
                Patch::Zeros(_) => place.fill(0),
            }
        }
        Ok(whole.into())
    }

    /// Puts bytes, extending it if need be.
    pub fn write(&mut self, offset: u64, data: Bytes) {
        self.size = self.size.max(offset + data.len() as u64);
        self.patch(offset, Patch::Data(data));
    }

    /// Replaces all of it.
    pub fn write_full(&mut self, data: Bytes) {
        self.truncate(0);
        self.write(0, data);
    }

    /// Cuts or extends it.
    pub fn truncate(&mut self, size: u64) {
        if size < self.size {
            self.clear(size, self.size);
            self.base_end = self.base_end.min(size);
        }
        self.size = size;
    }

    /// Makes `offset..end`, cut at its end, zeros.
    pub fn zero(&mut self, offset: u64, end: u64) {
        let (offset, end) = (offset.min(self.size), end.min(self.size));
        self.patch(offset, Patch::Zeros(end - offset));
    }

    /// What makes the stream in the OSD so.
    pub fn changes(self) -> Vec<Change> {
        let whole = match self.patches.first_key_value() {
            Some((0, Patch::Data(data))) if data.len() as u64 == self.size => Some(data),
            _ => None,
        };
        if let Some(data) = whole {
            return vec![Change::WriteFull(data.clone())];
        }
        let mut changes = Vec::new();
        let mut end = self.stored_size;
        if self.base_end < end {
            changes.push(Change::Truncate(self.base_end));
            end = self.base_end;
        }
        for (offset, patch) in self.patches {
            match patch {
                Patch::Data(data) => {
                    end = end.max(offset + data.len() as u64);
                    changes.push(Change::Write { offset, data });
                }
                Patch::Zeros(length) if offset + length < end => {
                    changes.push(Change::Zero { offset, length });
                }
                // Behind the end, what nobody writes is zero.
                Patch::Zeros(_) if offset < end => {
                    changes.push(Change::Truncate(offset));
                    end = offset;
                }
                Patch::Zeros(_) => {}
            }
        }
        if end != self.size {
            changes.push(resized(self.size));
        }
        changes
    }

    /// The parts of patches within `offset..end`.
    fn overlapping(&self, offset: u64, end: u64) -> Vec<(u64, Patch)> {
        if offset >= end {
            return vec![];
        }
        let first = self.patches.range(..=offset).next_back().map_or(offset, |(at, _)| *at);
        let cut = |(at, patch): (&u64, &Patch)| {
            let (from, to) = (offset.max(*at), end.min(at + patch.len()));
            (from < to).then(|| (from, patch.slice(from - at, to - at)))
        };
        self.patches.range(first..end).filter_map(cut).collect()
    }

    fn patch(&mut self, offset: u64, patch: Patch) {
        if patch.len() > 0 {
            self.clear(offset, offset + patch.len());
            self.patches.insert(offset, patch);
        }
    }

    /// Takes away what patches hold of `offset..end`, which is not empty.
    fn clear(&mut self, offset: u64, end: u64) {
        let first = self.patches.range(..=offset).next_back().map_or(offset, |(at, _)| *at);
        let touched: Vec<u64> = self.patches.range(first..end).map(|(at, _)| *at).collect();
        for at in touched {
            let Some(patch) = self.patches.remove(&at) else { continue };
            let behind = at + patch.len();
            if at < offset {
                self.patches.insert(at, patch.slice(0, offset.min(behind) - at));
            }
            if behind > end {
                self.patches.insert(end, patch.slice(end - at, patch.len()));
            }
        }
    }
}

/// What gives the data a size that it does not have.
fn resized(size: u64) -> Change {
    if size < MAX_OBJECT_BYTES {
        return Change::Truncate(size);
    }
    // An OSD extends to its limit by writing alone.
    Change::Write { offset: size - 1, data: Bytes::from_static(&[0]) }
}
