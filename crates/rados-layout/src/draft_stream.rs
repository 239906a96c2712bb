//! The byte stream of an object within a transaction: the stored stream, possibly cut, with the
//! transaction's writes over it.

use std::collections::BTreeMap;

use bytes::Bytes;

/// A byte stream as a transaction has made it so far.
#[derive(Debug, Clone, Default)]
pub struct DraftStream {
    size: u64,
    /// Bytes before this offset come from the stored stream. Later bytes are zero unless a patch
    /// has them.
    base_end: u64,
    /// The parts that the transaction has written, by the offset of their first byte.
    ///
    /// **Invariant:** patches are not empty, do not overlap, and end before `size`.
    patches: BTreeMap<u64, Patch>,
}

/// A part of a stream that a transaction has written.
#[derive(Debug, Clone)]
pub enum Patch {
    /// With these bytes.
    Data(Bytes),
    /// The number of zeros.
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

impl DraftStream {
    /// A stream of this size that was not changed.
    pub fn unchanged(size: u64) -> Self {
        Self { size, base_end: size, patches: BTreeMap::new() }
    }

    /// Its size now.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The offset up to which the stored stream counts. Later bytes are zero unless a patch has
    /// them.
    pub fn base_end(&self) -> u64 {
        self.base_end
    }

    /// The written parts, in order. They are not empty, do not overlap, and end before the stream's
    /// size.
    pub fn into_patches(self) -> impl Iterator<Item = (u64, Patch)> {
        self.patches.into_iter()
    }

    /// The whole stream, if a single patch holds it.
    pub fn whole(&self) -> Option<&Bytes> {
        match self.patches.first_key_value() {
            Some((0, Patch::Data(data))) if data.len() as u64 == self.size => Some(data),
            _ => None,
        }
    }

    /// Puts bytes, extending it if need be.
    pub fn write(&mut self, offset: u64, data: Bytes) {
        self.size = self.size.max(offset + data.len() as u64);
        self.patch(offset, Patch::Data(data));
    }

    /// Replaces the whole stream.
    pub fn write_full(&mut self, data: Bytes) {
        *self = Self::default();
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

    /// Writes zeros over `offset..end`, which must lie within the stream.
    pub fn zero(&mut self, offset: u64, end: u64) {
        self.patch(offset, Patch::Zeros(end - offset));
    }

    /// Which bytes of the stored stream are needed to read `offset..end`, which must lie within the
    /// stream.
    pub fn needed(&self, offset: u64, end: u64) -> Option<(u64, u64)> {
        let mut start = offset;
        let mut end = end.min(self.base_end);
        while let Some((at, patch)) = self.patches.range(..=start).next_back()
            && start < at + patch.len()
        {
            start = at + patch.len();
        }
        while end > start
            && let Some((at, patch)) = self.patches.range(..end).next_back()
            && at + patch.len() >= end
        {
            end = *at;
        }
        (start < end).then_some((start, end))
    }

    /// Bytes `offset..end`, which must lie within the stream. `base` has the bytes of the stored
    /// stream from `base_start` on, as [`Self::needed`] requires.
    pub fn read(&self, offset: u64, end: u64, base_start: u64, base: &Bytes) -> Bytes {
        let untouched = self.patches.range(..end).next_back();
        let untouched = untouched.is_none_or(|(at, patch)| at + patch.len() <= offset);
        if untouched && base_start == offset && base.len() as u64 == end - offset {
            return base.clone();
        }
        let mut whole = vec![0; (end - offset) as usize];
        if !base.is_empty() {
            let at = (base_start - offset) as usize;
            whole[at..at + base.len()].copy_from_slice(base);
        }
        for (at, patch) in self.overlapping(offset, end) {
            let from = (at - offset) as usize;
            let place = &mut whole[from..from + patch.len() as usize];
            match patch {
                Patch::Data(data) => place.copy_from_slice(&data),
                Patch::Zeros(_) => place.fill(0),
            }
        }
        whole.into()
    }

    /// The parts of patches within `offset..end`.
    fn overlapping(&self, offset: u64, end: u64) -> Vec<(u64, Patch)> {
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

    /// Removes `offset..end`, which is not empty, from the patches.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The content of a stream over the stored bytes `base`. Reads only the bytes that the stream
    /// says it needs.
    fn content(stream: &DraftStream, base: &[u8]) -> Vec<u8> {
        let (start, end) = stream.needed(0, stream.size()).unwrap_or_default();
        let base = Bytes::copy_from_slice(&base[start as usize..end as usize]);
        stream.read(0, stream.size(), start, &base).to_vec()
    }

    #[test]
    fn a_draft_stream_equals_a_vector_after_any_short_sequence_of_changes() {
        type Change = (fn(&mut DraftStream), fn(&mut Vec<u8>));
        let changes: [Change; 6] = [
            (
                |s| s.write(2, Bytes::from_static(b"new")),
                |v| {
                    v.resize(v.len().max(5), 0);
                    v[2..5].copy_from_slice(b"new");
                },
            ),
            (
                |s| s.write(4, Bytes::from_static(b"YYYYY")),
                |v| {
                    v.resize(v.len().max(9), 0);
                    v[4..9].copy_from_slice(b"YYYYY");
                },
            ),
            (|s| s.truncate(3), |v| v.resize(3, 0)),
            (|s| s.truncate(12), |v| v.resize(12, 0)),
            (
                |s| s.zero(1.min(s.size()), 6.min(s.size())),
                |v| {
                    let end = 6.min(v.len());
                    v[1.min(end)..end].fill(0);
                },
            ),
            (|s| s.write_full(Bytes::from_static(b"new")), |v| *v = b"new".to_vec()),
        ];
        let base = b"0123456789";
        for number in 0..changes.len().pow(4) {
            let (mut stream, mut vector) = (DraftStream::unchanged(10), base.to_vec());
            let mut order = vec![];
            for digit in 0..4_u32 {
                let change = number / changes.len().pow(digit) % changes.len();
                order.push(change);
                changes[change].0(&mut stream);
                changes[change].1(&mut vector);
            }
            assert_eq!(content(&stream, base), vector, "{order:?}");
        }
    }
}
