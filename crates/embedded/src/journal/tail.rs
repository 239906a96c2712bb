//! The last groups that were written, in memory: what was just written is often read next, as by the
//! followers of a log, and it went to the disk past the kernel's cache.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, RwLock};

use crate::page_buffer::PageBuffer;

/// Bytes of groups kept: some hundred small groups, or some ten of large ones; little beside what
/// else an engine that works has in memory.
const MAX_BYTES: usize = 2 * 1024 * 1024;

/// A group as it lies on disk.
#[derive(Debug)]
pub(crate) struct WrittenGroup {
    pub segment: u32,
    pub offset: u32,
    pub bytes: PageBuffer,
}

impl WrittenGroup {
    fn place(&self) -> (u32, u32) {
        (self.segment, self.offset)
    }
}

/// The last groups, in the order of their places, which is the order they were written in.
#[derive(Debug, Default)]
pub(crate) struct Tail(RwLock<Kept>);

#[derive(Debug, Default)]
struct Kept {
    groups: VecDeque<Arc<WrittenGroup>>,
    /// Of memory.
    bytes: usize,
}

impl Tail {
    /// Keeps a group that is synced; answers the buffers of those that had to go for it.
    pub fn push(&self, group: WrittenGroup) -> Vec<PageBuffer> {
        let mut kept = self.0.write().unwrap_or_else(PoisonError::into_inner);
        kept.bytes += group.bytes.capacity();
        kept.groups.push_back(Arc::new(group));
        let mut freed = Vec::new();
        while kept.bytes > MAX_BYTES {
            let Some(oldest) = kept.groups.pop_front() else { break };
            kept.bytes -= oldest.bytes.capacity();
            // Somebody who is reading from it right now drops it then.
            freed.extend(Arc::try_unwrap(oldest).map(|group| group.bytes));
        }
        freed
    }

    /// Copies what lies at a place of a segment to `out`; answers whether it is there.
    pub fn read(&self, segment: u32, offset: u32, out: &mut [u8]) -> bool {
        let Some(group) = self.group_of(segment, offset) else { return false };
        let start = (offset - group.offset) as usize;
        let found = group.bytes.as_bytes().get(start..start + out.len());
        if let Some(found) = found {
            out.copy_from_slice(found);
        }
        found.is_some()
    }

    /// The last group that begins at or before a place of its segment.
    fn group_of(&self, segment: u32, offset: u32) -> Option<Arc<WrittenGroup>> {
        let kept = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let after = kept.groups.partition_point(|group| group.place() <= (segment, offset));
        let group = kept.groups.get(after.checked_sub(1)?)?;
        (group.segment == segment).then(|| Arc::clone(group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(segment: u32, offset: u32, fill: u8, length: usize) -> WrittenGroup {
        let mut bytes = PageBuffer::default();
        bytes.extend_from_slice(&vec![fill; length]);
        WrittenGroup { segment, offset, bytes }
    }

    fn read(tail: &Tail, segment: u32, offset: u32, length: usize) -> Option<Vec<u8>> {
        let mut out = vec![0; length];
        tail.read(segment, offset, &mut out).then_some(out)
    }

    #[test]
    fn it_has_what_lies_within_a_kept_group_and_nothing_else() {
        let tail = Tail::default();
        assert_eq!(read(&tail, 1, 512, 1), None);
        tail.push(group(1, 512, 1, 1000));
        tail.push(group(1, 2048, 2, 512));
        tail.push(group(2, 512, 3, 512));
        assert_eq!(read(&tail, 1, 512, 1000), Some(vec![1; 1000]));
        assert_eq!(read(&tail, 1, 2058, 10), Some(vec![2; 10]));
        assert_eq!(read(&tail, 2, 512, 512), Some(vec![3; 512]));
        for (segment, offset, length) in [(0, 512, 1), (1, 0, 1), (1, 1500, 13), (2, 1000, 25)] {
            assert_eq!(read(&tail, segment, offset, length), None, "{segment} {offset} {length}");
        }
    }

    #[test]
    fn the_oldest_give_their_memory_to_the_next() {
        let tail = Tail::default();
        let mut freed = 0;
        for number in 0..10 {
            freed += tail.push(group(number, 512, 7, MAX_BYTES / 4)).len();
        }
        assert_eq!(freed, 6);
        assert_eq!(read(&tail, 5, 512, 1), None);
        assert_eq!(read(&tail, 6, 512, 1), Some(vec![7]));
    }
}
