//! The blocks of a stream, which are what a cache keeps.

use std::ops::Range;

/// The bytes of a block: those of a page of the operating system, of many databases and of most
/// file systems. Random reads of such pages then bring nothing into the cache that nobody has read.
/// A smaller block would cost too much for each byte, since a block takes some 200 bytes more than
/// its content.
pub(super) const BLOCK_BYTES: u64 = 4096;
/// Longer reads bypass the cache. They cost few requests for each byte, and would displace many
/// blocks that are read often.
pub(super) const MAX_CACHED_BYTES: u64 = 1 << 20;
/// The most blocks of one read: those of the longest read, if it begins and ends within a block.
pub(super) const MAX_READ_BLOCKS: u64 = MAX_CACHED_BYTES / BLOCK_BYTES + 2;

const _: () = assert!(MAX_CACHED_BYTES.is_multiple_of(BLOCK_BYTES));

/// The numbers of the blocks that have some of these bytes.
pub(super) fn blocks_of(offset: u64, length: u64) -> Range<u64> {
    let first = offset / BLOCK_BYTES;
    match length {
        0 => first..first,
        _ => first..(offset.saturating_add(length) - 1) / BLOCK_BYTES + 1,
    }
}

/// The bytes that a read returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReturnedBytes {
    /// The first byte.
    pub offset: u64,
    /// How many bytes were asked for.
    pub asked: u64,
    /// How many there were.
    pub length: u64,
}

/// A block among the bytes that a read returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReturnedBlock {
    pub number: u64,
    /// Its bytes within those that were returned.
    pub bytes: Range<usize>,
    /// Whether the stream ends in it, or before it.
    pub is_end: bool,
}

impl ReturnedBytes {
    /// The blocks that are known completely from the read. That is each block whose bytes were all
    /// returned; and the one in which the stream ends, if the read reached the end.
    pub fn blocks(self) -> impl Iterator<Item = ReturnedBlock> {
        let (start, end) = (self.offset, self.offset + self.length);
        let is_cut = self.length < self.asked;
        let first = start.div_ceil(BLOCK_BYTES);
        (first..).map_while(move |number| {
            let from = number.checked_mul(BLOCK_BYTES)?;
            let to = from + BLOCK_BYTES;
            let is_end = to > end;
            let is_known = !is_end || (is_cut && from <= end);
            let bytes =
                (from.checked_sub(start)? as usize)..(to.min(end).checked_sub(start)? as usize);
            is_known.then_some(ReturnedBlock { number, bytes, is_end })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(offset: u64, asked: u64, length: u64) -> Vec<(u64, usize, bool)> {
        let returned = ReturnedBytes { offset, asked, length };
        let all = returned.blocks().map(|block| {
            assert_eq!(block.bytes.start as u64, block.number * BLOCK_BYTES - offset);
            (block.number, block.bytes.len(), block.is_end)
        });
        all.collect()
    }

    #[test]
    fn a_read_shows_its_full_blocks_and_the_end_of_the_stream() {
        const B: u64 = BLOCK_BYTES;
        let full = BLOCK_BYTES as usize;
        assert_eq!(blocks(0, 2 * B, 2 * B), [(0, full, false), (1, full, false)]);
        assert_eq!(blocks(1, 2 * B, 2 * B), [(1, full, false)], "both edges are incomplete");
        assert_eq!(blocks(B, 2 * B, B + 7), [(1, full, false), (2, 7, true)]);
        assert_eq!(blocks(0, 2 * B, B), [(0, full, false), (1, 0, true)]);
        assert_eq!(blocks(5 * B, B, 0), [(5, 0, true)], "past the end");
        assert_eq!(blocks(5 * B + 1, B, 0), [], "the end may lie in block 5");
        assert_eq!(blocks(7, 9, 9), []);
    }

    #[test]
    fn the_blocks_of_bytes_include_both_edges() {
        assert_eq!(blocks_of(BLOCK_BYTES - 1, 2), 0..2);
        assert_eq!(blocks_of(BLOCK_BYTES, 0), 1..1);
        assert_eq!(blocks_of(0, BLOCK_BYTES), 0..1);
        assert_eq!(blocks_of(u64::MAX, u64::MAX).start, u64::MAX / BLOCK_BYTES);
    }
}
