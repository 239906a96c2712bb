//! `Changes`: notices changes of objects, so that no read is answered with bytes from before an
//! acknowledged change.
//!
//! A cached block is not dropped when its bytes change, because finding the blocks of all changed
//! bytes would cost time for each change. Instead, every part of an object has a *generation*, a
//! number that rises when a change of this part begins and when it ends. A cached part carries the
//! generation from before the read that filled it, and is used only while that is still the
//! generation of the part. Parts share generations by their hash, so a change may invalidate more
//! than it changes, but never less.
//!
//! An object has three kinds of parts:
//!
//! | part | which changes touch it |
//! | --- | --- |
//! | [`Part::Version`] | all: each gives the object a new version. Also the end of the stream depends on it. |
//! | [`Part::Stream`] | those that may change any byte |
//! | [`Part::Block`] | those that change bytes of this block |
//!
//! **Invariant:** while a change is in flight, its parts have no generation. So neither is a cached
//! part used, nor does a read that began meanwhile fill the cache.
//! **Invariant:** the store below has applied a change, or has dropped it for ever, when it answers.

use std::sync::atomic::{AtomicU64, Ordering};

use nacre_clock::Random;
use nacre_object::{ObjectId, Op};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::block::blocks_of;

/// How many generations there are. With so many, changes seldom invalidate other objects by
/// accident: a cache of 256 MiB has as many blocks. They take 512 KiB.
const SLOTS: usize = 1 << 16;
/// A slot counts the changes in flight in its low bits, and its generation in the others. Far fewer
/// changes can be in flight than the low bits can count.
const GENERATION: u64 = 1 << 24;
const IN_FLIGHT: u64 = GENERATION - 1;
/// A change of more blocks than this counts as a change of the whole stream.
const MAX_TOUCHED_BLOCKS: u64 = 64;

const _: () = assert!(SLOTS.is_power_of_two());

/// A part of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Its version, and all else that any change may change.
    Version,
    /// Its whole stream.
    Stream,
    /// A block of its stream, by number.
    Block(u64),
}

/// The generation of a part in which no change was in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Generation(u64);

/// What a change of an object touches, in addition to its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Touched {
    /// Perhaps every byte of the stream.
    Stream,
    /// These blocks of the stream. The change may also make the stream longer.
    Blocks(Vec<u64>),
}

impl Touched {
    /// What these ops may change; `None` if they only read.
    pub fn by(ops: &[Op]) -> Option<Self> {
        let mut writes = ops.iter().filter(|op| op.is_write()).peekable();
        writes.peek()?;
        let mut blocks = vec![];
        for op in writes {
            let (offset, length) = match op {
                Op::Write { offset, data } => (*offset, data.len() as u64),
                Op::Zero { offset, length } => (*offset, *length),
                // What is appended lies behind all full blocks, and each change touches the end of
                // the stream.
                Op::Append { .. }
                | Op::Create { .. }
                | Op::SetAttribute { .. }
                | Op::RemoveAttribute { .. }
                | Op::MapSet { .. }
                | Op::MapRemove { .. }
                | Op::MapClear
                | Op::MapSetHeader { .. }
                | Op::SnapshotCreate { .. }
                | Op::SnapshotRemove { .. } => continue,
                _ => return Some(Self::Stream),
            };
            let touched = blocks_of(offset, length);
            if touched.end - touched.start + blocks.len() as u64 > MAX_TOUCHED_BLOCKS {
                return Some(Self::Stream);
            }
            blocks.extend(touched);
        }
        Some(Self::Blocks(blocks))
    }
}

/// The generations of all objects.
#[derive(Debug)]
pub(super) struct Changes {
    slots: Box<[AtomicU64]>,
    seed: u64,
}

/// A hash of an object's name. Clients choose names, so its seed is secret: they cannot make parts
/// of other tenants' objects share a generation with their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ObjectHash(pub u64);

impl ObjectHash {
    /// A number for a block of the object.
    pub fn block(self, block: u64) -> u64 {
        xxh3_64_with_seed(&block.to_le_bytes(), self.0)
    }
}

impl Changes {
    pub fn new() -> Self {
        let slots = (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        Self { slots, seed: Random::from_system().next_u64() }
    }

    pub fn hash(&self, object: &ObjectId) -> ObjectHash {
        let pool = xxh3_64_with_seed(object.pool.as_str().as_bytes(), self.seed);
        ObjectHash(xxh3_64_with_seed(object.name.as_str().as_bytes(), pool))
    }

    fn slot(&self, object: ObjectHash, part: Part) -> &AtomicU64 {
        let hash = match part {
            Part::Version => object.0,
            Part::Stream => object.0.rotate_left(32) ^ 1,
            Part::Block(block) => object.block(block),
        };
        &self.slots[hash as usize % SLOTS]
    }

    /// The generation of a part; `None` while a change of it is in flight.
    pub fn generation(&self, object: ObjectHash, part: Part) -> Option<Generation> {
        let value = self.slot(object, part).load(Ordering::SeqCst);
        (value & IN_FLIGHT == 0).then_some(Generation(value))
    }

    /// Whether a part still has this generation.
    pub fn is_unchanged(&self, object: ObjectHash, part: Part, generation: Generation) -> bool {
        self.generation(object, part) == Some(generation)
    }

    /// Records that a change begins. Call this before the change is sent to the store below, and
    /// [`Changes::end`] when the store has answered.
    pub fn begin(&self, object: ObjectHash, touched: &Touched) -> BegunChange {
        let begin = |part| self.slot(object, part).fetch_add(GENERATION + 1, Ordering::SeqCst);
        each(touched, |part| {
            begin(part);
        });
        BegunChange { version: begin(Part::Version).wrapping_add(GENERATION + 1) }
    }

    /// Records that a change has ended. Returns the new generation of the object's version if no
    /// other change was in flight or began since this one began. Then the version in the reply to
    /// the change is the object's version in this generation.
    pub fn end(
        &self,
        object: ObjectHash,
        touched: &Touched,
        begun: BegunChange,
    ) -> Option<Generation> {
        // One change in flight less, and the next generation.
        let end = |part| self.slot(object, part).fetch_add(GENERATION - 1, Ordering::SeqCst);
        each(touched, |part| {
            end(part);
        });
        let before = end(Part::Version);
        let was_alone = before == begun.version && before & IN_FLIGHT == 1;
        was_alone.then(|| Generation(before.wrapping_add(GENERATION - 1)))
    }
}

/// A change that has begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct BegunChange {
    /// The value of the version's slot after the begin.
    version: u64,
}

fn each(touched: &Touched, mut with: impl FnMut(Part)) {
    match touched {
        Touched::Stream => with(Part::Stream),
        Touched::Blocks(blocks) => blocks.iter().for_each(|block| with(Part::Block(*block))),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::block::BLOCK_BYTES;
    use super::*;

    fn touched(ops: &[Op]) -> Option<Touched> {
        Touched::by(ops)
    }

    #[test]
    fn a_write_touches_the_blocks_of_its_bytes_alone() {
        let write = |offset, length| Op::Write { offset, data: Bytes::from(vec![0; length]) };
        assert_eq!(touched(&[Op::Stat, Op::Read { offset: 0, length: 9 }]), None);
        let blocks = touched(&[write(BLOCK_BYTES - 1, 2), Op::MapClear, write(9 * BLOCK_BYTES, 1)]);
        assert_eq!(blocks, Some(Touched::Blocks(vec![0, 1, 9])));
        assert_eq!(touched(&[write(0, 70 * BLOCK_BYTES as usize)]), Some(Touched::Stream));
        let zero = Op::Zero { offset: 0, length: u64::MAX };
        assert_eq!(touched(&[zero]), Some(Touched::Stream));
        assert_eq!(touched(&[write(0, 1), Op::Truncate { size: 0 }]), Some(Touched::Stream));
        assert_eq!(touched(&[Op::Remove]), Some(Touched::Stream));
    }

    #[test]
    fn a_part_has_no_generation_while_a_change_of_it_is_in_flight() {
        let changes = Changes::new();
        let object = changes.hash(&"data/a".parse().unwrap());
        let now = |part| changes.generation(object, part);
        let parts = [Part::Version, Part::Stream, Part::Block(3)];
        let before = parts.map(|part| now(part).unwrap());
        let block = Touched::Blocks(vec![3]);
        let first = changes.begin(object, &block);
        assert_eq!(parts.map(now), [None, Some(before[1]), None]);
        let second = changes.begin(object, &Touched::Stream);
        assert_eq!(changes.end(object, &block, first), None, "another change is in flight");
        assert_eq!(now(Part::Version), None);
        assert_eq!(changes.end(object, &Touched::Stream, second), None, "they overlapped");
        for (part, before) in parts.into_iter().zip(before) {
            assert!(now(part).is_some_and(|after| after != before), "{part:?}");
        }
        let alone = changes.begin(object, &block);
        let ended = changes.end(object, &block, alone);
        assert!(ended.is_some() && ended == now(Part::Version));
    }
}
