//! Makes random transactions. They use only a few names, so that they often use the same objects
//! and keys.

use std::fmt;

use bytes::Bytes;
use nacre_clock::Random;
use nacre_object::limits::{MAX_MAP_KEY_BYTES, MAX_OBJECT_BYTES};
use nacre_object::{Capabilities, Capability, ObjectName, Op};

use crate::ops::*;

/// The number of objects that steps use.
pub const OBJECTS: usize = 4;
/// A placeholder for the object's version in an [`Op::AssertVersion`], because each store numbers
/// versions in its own way.
pub const CURRENT_VERSION: u64 = u64::MAX;
/// A version that no object ever has.
const NO_VERSION: u64 = u64::MAX - 1;
/// The most ops of a transaction: enough that some see the effects of others.
const MAX_LIST: u64 = 6;
/// The most characters of one op in a printed step.
const MAX_PRINTED_CHARS: usize = 160;

const KEYS: [&[u8]; 10] =
    [b"a", b"ab", b"abc", b"b", b"\0", b"\xff", b"\xff\0", b"\xff\xff", b"log/1", b"log/2"];
const PREFIXES: [&[u8]; 7] = [b"", b"", b"a", b"ab", b"\xff", b"log/", b"none"];
const ATTRIBUTES: [&str; 4] = ["a", "b", "ab", "ä"];
const SNAPSHOTS: [&str; 3] = ["s1", "s2", "s3"];
/// Sizes and offsets at which engines may divide streams. Random sizes and offsets fall near these.
const SEAMS: [u64; 6] = [0, 512, 4096, 16_384, 65_536, 131_072];
/// The methods of [`TestClasses`](crate::TestClasses) whose outcome must be that of the model: all
/// except those that return versions or times.
const METHODS: [&str; 13] = [
    "count",
    "append",
    "append",
    "write-and-fail",
    "fault",
    "remove",
    "catch",
    "size",
    "last",
    "range",
    "echo",
    "liar",
    "none",
];

/// A transaction on one of [`OBJECTS`] objects.
#[derive(Debug, Clone)]
pub struct Step {
    /// The index of the object.
    pub object: usize,
    /// The snapshot at which the object is read; `None` for the present object.
    pub snapshot: Option<&'static str>,
    /// The ops. The comparison replaces [`CURRENT_VERSION`] and the names of sources.
    pub ops: Vec<Op>,
}

impl Step {
    /// The index of an object that an op's `source` stands for.
    pub(super) fn source_index(source: &ObjectName) -> usize {
        source.as_str().parse().expect("a generated source is a number")
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "object {}", self.object)?;
        if let Some(snapshot) = self.snapshot {
            write!(f, " at {snapshot}")?;
        }
        for op in &self.ops {
            let text = format!("{op:?}");
            let cut: String = text.chars().take(MAX_PRINTED_CHARS).collect();
            let dots = if cut.len() < text.len() { "…" } else { "" };
            write!(f, "\n        {cut}{dots}")?;
        }
        Ok(())
    }
}

/// Makes steps: the same seed and capabilities make the same steps.
#[derive(Debug, Clone)]
pub struct Generator {
    random: Random,
    capabilities: Capabilities,
}

impl Generator {
    /// The generator of a seed, for stores with these capabilities.
    pub fn new(seed: u64, capabilities: Capabilities) -> Self {
        Self { random: Random::seeded(seed), capabilities }
    }

    /// The next step.
    pub fn step(&mut self) -> Step {
        let random = &mut self.random;
        let object = random.below(OBJECTS as u64) as usize;
        let at_snapshot = self.capabilities.has(Capability::Snapshots) && random.one_in(10);
        let snapshot = at_snapshot.then(|| pick(random, &SNAPSHOTS));
        let mut ops = random_transaction(random, self.capabilities);
        if snapshot.is_some() && !random.one_in(5) {
            ops.retain(|op| !op.is_write());
            ops.push(read_all());
        }
        // Choose another object, because a request to clone an object from itself is refused before
        // it reaches a store.
        let other =
            ((object + 1 + random.below(OBJECTS as u64 - 1) as usize) % OBJECTS).to_string();
        for op in &mut ops {
            if let Op::CloneFrom { source, .. } | Op::WriteFullFrom { source, .. } = op {
                *source = ObjectName::new(&other).expect("a number is a name");
            }
        }
        Step { object, snapshot, ops }
    }
}

/// Makes a random list of ops for a store with these capabilities. Most of the ops succeed. A clone
/// has the placeholder `0` as its source. A guard on the version can only be the first op.
pub fn random_transaction(random: &mut Random, capabilities: Capabilities) -> Vec<Op> {
    let mut ops = Vec::new();
    if random.one_in(8) {
        ops.push(random_guard(random));
    }
    for _ in 0..=random.below(MAX_LIST) {
        ops.push(random_op(random));
    }
    ops.retain(|op| op.capability().is_none_or(|needed| capabilities.has(needed)));
    if ops.is_empty() {
        ops.push(Op::AssertExists);
    }
    // Most objects exist, so usually remove the object before an op that requires that it does not
    // exist.
    let needs_room = |op: &Op| matches!(op, Op::AssertAbsent | Op::CloneFrom { .. });
    if let Some(at) = ops.iter().position(needs_room)
        && !random.one_in(3)
    {
        ops.insert(at, Op::Remove);
    }
    ops
}

fn random_op(random: &mut Random) -> Op {
    match random.below(100) {
        0..30 => stream_op(random),
        30..60 => map_op(random),
        60..75 => attribute_op(random),
        75..83 => lifetime_op(random),
        83..93 => snapshot_op(random),
        _ => call_op(random),
    }
}

fn random_guard(random: &mut Random) -> Op {
    match random.below(8) {
        0..2 => Op::AssertAbsent,
        2 => Op::AssertExists,
        3 => Op::AssertVersion(NO_VERSION),
        _ => Op::AssertVersion(CURRENT_VERSION),
    }
}

fn stream_op(random: &mut Random) -> Op {
    match random.below(16) {
        0..4 => append(bytes(random)),
        4..8 => write(offset(random), bytes(random)),
        8 => write_full(bytes(random)),
        9 => truncate(offset(random)),
        10 => zero(offset(random), offset(random)),
        11 if random.one_in(4) => truncate(MAX_OBJECT_BYTES + 1),
        12 => read_all(),
        _ => read(offset(random), offset(random)),
    }
}

fn map_op(random: &mut Random) -> Op {
    match random.below(16) {
        0..6 => {
            map_set((0..=random.below(3)).map(|_| (key(random), bytes(random))).collect::<Vec<_>>())
        }
        6..8 => map_remove([key(random), key(random)]),
        8..10 => map_get([key(random), key(random)]),
        10 => Op::MapGetHeader,
        11 => map_set_header(bytes(random)),
        12 if random.one_in(3) => Op::MapClear,
        13 if random.one_in(8) => map_set([(vec![b'k'; MAX_MAP_KEY_BYTES + 1], "v")]),
        _ => {
            let after = if random.one_in(2) { Bytes::new() } else { key(random) };
            map_range(after, pick(random, &PREFIXES), random.below(5) as u32)
        }
    }
}

fn attribute_op(random: &mut Random) -> Op {
    let name = pick(random, &ATTRIBUTES);
    match random.below(8) {
        0..4 => set_attribute(name, bytes(random)),
        4 if random.one_in(2) => remove_attribute(name),
        5 if random.one_in(2) => get_attribute(name),
        _ => Op::GetAttributes,
    }
}

fn lifetime_op(random: &mut Random) -> Op {
    match random.below(8) {
        0..2 => Op::Remove,
        2 => create(),
        3..5 => Op::Stat,
        _ => ensure(),
    }
}

fn snapshot_op(random: &mut Random) -> Op {
    let name = pick(random, &SNAPSHOTS);
    match random.below(13) {
        0..4 => snapshot_create(name),
        4..6 => snapshot_remove(name),
        6..9 => rollback(name),
        9..11 => clone_from(&ObjectName::new("0").expect("a number is a name"), name),
        11 => write_full_from(&ObjectName::new("0").expect("a number is a name"), name),
        _ => Op::SnapshotList,
    }
}

fn call_op(random: &mut Random) -> Op {
    call(pick(random, &METHODS), Bytes::copy_from_slice(pick(random, &[b"", b"a", b"log/"])))
}

fn pick<T: Copy>(random: &mut Random, items: &[T]) -> T {
    *random.pick(items).expect("there is something to pick from")
}

fn key(random: &mut Random) -> Bytes {
    Bytes::from_static(pick(random, &KEYS))
}

/// Random bytes: usually few, sometimes enough to cross a seam. Their values change every 61 bytes,
/// which shows where data came from.
fn bytes(random: &mut Random) -> Bytes {
    let length = if random.one_in(6) { offset(random) } else { random.below(40) };
    let first = random.next_u64() as u8;
    (0..length).map(|i| first.wrapping_add((i / 61) as u8)).collect()
}

/// A random offset near a seam, more often near the first seams.
fn offset(random: &mut Random) -> u64 {
    let seam = if random.one_in(2) { 0 } else { pick(random, &SEAMS) };
    (seam + random.below(40)).saturating_sub(random.below(5))
}
