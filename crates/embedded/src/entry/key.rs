//! Keys of the tables, format 1.
//!
//! One sorted keyspace holds everything; the first byte says what an entry is. Numbers are
//! big-endian so that byte order is number order. A `0` in a key is a zero byte.
//!
//! An object's *head* is the entry with its version and sizes, and the numbers of its nodes. A
//! *node* is a set of entries that are dropped together: the entries of the object's stream, of its
//! map, or of its attributes. To drop a large node, the shard only removes the node's number from
//! the head; the upkeep thread has the entries deleted later. A large value is a *payload* in a
//! segment (file) of the journal. A table entry that refers to a payload is its *owner*.
//!
//! | key | value |
//! | --- | --- |
//! | `h` pool 0 object | the object's [`crate::entry::head::Head`]; listing a pool reads these |
//! | `s` pool 0 object 0 snapshot | the object's head at the time of the snapshot |
//! | `n` node `x` offset:u64 | an extent of a byte stream |
//! | `n` node `t` slot:u32 | one small append, not yet folded into an extent |
//! | `n` node `m` key | a map entry |
//! | `n` node `p` | the map header |
//! | `n` node `a` name | an attribute |
//! | `r` segment:u32 offset:u32 owner-key | the owner refers to this payload, and the payload's journal record does not name the owner |
//! | `l` segment:u32 shard:u16 | bytes of the segment that the shard's entries refer to |
//! | `g` shard:u16 node:u64 | a node whose entries are to be deleted |
//! | `q` shard:u16 | how far the shard has applied the journal |

use lsm_tree::Slice;
use nacre_object::{ObjectId, ObjectName, PoolName, SnapshotName};

/// A key of the tables.
pub(crate) type Key = Slice;

const HEAD: u8 = b'h';
const SNAPSHOT: u8 = b's';
const NODE: u8 = b'n';
const REFERENCE: u8 = b'r';
const LIVE: u8 = b'l';
pub(crate) const GARBAGE: u8 = b'g';
const APPLIED: u8 = b'q';

const EXTENT: u8 = b'x';
const SLOT: u8 = b't';
const MAP_ENTRY: u8 = b'm';
const MAP_HEADER: u8 = b'p';
const ATTRIBUTE: u8 = b'a';

/// `n`, the node and the kind of entry.
const NODE_KIND_BYTES: usize = 10;

/// The number of a node: the set of table entries of one stream, one map or the attributes of one
/// object. After the node is dropped, the number is never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeId(pub u64);

impl NodeId {
    /// Bits that number the nodes of one shard; the shard is above them.
    const NUMBER_BITS: u32 = 48;

    pub fn new(shard: u16, number: u64) -> Self {
        debug_assert!(number < 1 << Self::NUMBER_BITS);
        Self(u64::from(shard) << Self::NUMBER_BITS | number)
    }

    /// The shard that made it, and alone changes it.
    pub fn shard(self) -> u16 {
        (self.0 >> Self::NUMBER_BITS) as u16
    }
}

fn node_kind(node: NodeId, kind: u8) -> [u8; NODE_KIND_BYTES] {
    let mut key = [0; NODE_KIND_BYTES];
    key[0] = NODE;
    key[1..9].copy_from_slice(&node.0.to_be_bytes());
    key[9] = kind;
    key
}

/// Keys of at most this length are built on the stack. Most keys are.
const SHORT_KEY_BYTES: usize = 64;

fn joined(parts: &[&[u8]]) -> Key {
    let length = parts.iter().map(|part| part.len()).sum();
    if length > SHORT_KEY_BYTES {
        return parts.concat().into();
    }
    let (mut key, mut at) = ([0; SHORT_KEY_BYTES], 0);
    for part in parts {
        key[at..][..part.len()].copy_from_slice(part);
        at += part.len();
    }
    Key::new(&key[..length])
}

pub(crate) fn head(object: &ObjectId) -> Key {
    joined(&[&[HEAD], object.pool.as_str().as_bytes(), &[0], object.name.as_str().as_bytes()])
}

/// Returns the prefix of the head keys of all objects in a pool whose names start with `prefix`.
pub(crate) fn head_prefix(pool: &PoolName, prefix: &str) -> Key {
    joined(&[&[HEAD], pool.as_str().as_bytes(), &[0], prefix.as_bytes()])
}

/// The object's name in the key of a head of `pool`.
pub(crate) fn name_in_head<'a>(key: &'a [u8], pool: &PoolName) -> &'a [u8] {
    &key[1 + pool.as_str().len() + 1..]
}

pub(crate) fn snapshot(object: &ObjectId, snapshot: &SnapshotName) -> Key {
    let mut key = snapshot_prefix(object).to_vec();
    key.extend_from_slice(snapshot.as_str().as_bytes());
    key.into()
}

pub(crate) fn snapshot_prefix(object: &ObjectId) -> Key {
    let (pool, name) = (object.pool.as_str().as_bytes(), object.name.as_str().as_bytes());
    joined(&[&[SNAPSHOT], pool, &[0], name, &[0]])
}

pub(crate) fn node_prefix(node: NodeId) -> [u8; 9] {
    let mut key = [0; 9];
    key[0] = NODE;
    key[1..].copy_from_slice(&node.0.to_be_bytes());
    key
}

/// Whether a key is that of an object's head.
pub(crate) fn is_head(key: &[u8]) -> bool {
    key.first() == Some(&HEAD)
}

/// Whether no shard but this one changes the entry under this key. True for every head, because a
/// shard looks up the heads of its own objects only. True for an entry of a node only if the node
/// belongs to this shard, because a clone also reads nodes of other shards.
pub(crate) fn is_of_shard(shard: u16, key: &[u8]) -> bool {
    match key.first() {
        Some(&HEAD) => true,
        Some(&NODE) => key.get(1..3) == Some(&shard.to_be_bytes()),
        _ => false,
    }
}

/// Whether two keys belong to one node of this shard.
pub(crate) fn is_of_shard_node(shard: u16, one: &[u8], other: &[u8]) -> bool {
    const NODE_BYTES: usize = 9;
    let node = one.get(..NODE_BYTES);
    node.is_some()
        && node == other.get(..NODE_BYTES)
        && one[0] == NODE
        && one[1..3] == shard.to_be_bytes()
}

pub(crate) fn extent_prefix(node: NodeId) -> [u8; NODE_KIND_BYTES] {
    node_kind(node, EXTENT)
}

pub(crate) fn extent(node: NodeId, offset: u64) -> [u8; NODE_KIND_BYTES + 8] {
    let mut key = [0; NODE_KIND_BYTES + 8];
    key[..NODE_KIND_BYTES].copy_from_slice(&extent_prefix(node));
    key[NODE_KIND_BYTES..].copy_from_slice(&offset.to_be_bytes());
    key
}

/// Where an extent starts, from its key.
pub(crate) fn extent_offset(key: &[u8]) -> u64 {
    let tail = key[NODE_KIND_BYTES..].try_into().expect("keys of extents end in their offset");
    u64::from_be_bytes(tail)
}

pub(crate) fn slot(node: NodeId, slot: u32) -> [u8; NODE_KIND_BYTES + 4] {
    let mut key = [0; NODE_KIND_BYTES + 4];
    key[..NODE_KIND_BYTES].copy_from_slice(&node_kind(node, SLOT));
    key[NODE_KIND_BYTES..].copy_from_slice(&slot.to_be_bytes());
    key
}

pub(crate) fn map_prefix(node: NodeId) -> [u8; NODE_KIND_BYTES] {
    node_kind(node, MAP_ENTRY)
}

pub(crate) fn map_entry(node: NodeId, key: &[u8]) -> Key {
    joined(&[&map_prefix(node), key])
}

pub(crate) fn map_header(node: NodeId) -> [u8; NODE_KIND_BYTES] {
    node_kind(node, MAP_HEADER)
}

pub(crate) fn attribute_prefix(node: NodeId) -> [u8; NODE_KIND_BYTES] {
    node_kind(node, ATTRIBUTE)
}

pub(crate) fn attribute(node: NodeId, name: &str) -> Key {
    joined(&[&attribute_prefix(node), name.as_bytes()])
}

/// Returns the end of the key of a stream, map or attribute entry: the part after the node's number
/// and the kind of entry.
pub(crate) fn suffix(key: &[u8]) -> &[u8] {
    &key[NODE_KIND_BYTES..]
}

/// The same entry in another node.
pub(crate) fn moved_to(key: &[u8], node: NodeId) -> Key {
    joined(&[&node_prefix(node), &key[9..]])
}

/// Returns the node of an entry, or `None` if the key belongs to no node.
pub(crate) fn node_of(key: &[u8]) -> Option<NodeId> {
    let number = key.strip_prefix(&[NODE])?.first_chunk()?;
    Some(NodeId(u64::from_be_bytes(*number)))
}

pub(crate) fn reference_prefix(segment: u32) -> [u8; 5] {
    let mut key = [REFERENCE; 5];
    key[1..].copy_from_slice(&segment.to_be_bytes());
    key
}

pub(crate) fn reference(segment: u32, offset: u32, owner: &[u8]) -> Key {
    joined(&[&reference_prefix(segment), &offset.to_be_bytes(), owner])
}

/// Splits the key of a reference into the offset of the payload in its segment and the key of the
/// owner (the entry that refers to the payload).
pub(crate) fn reference_parts(key: &[u8]) -> Option<(u32, &[u8])> {
    let (offset, owner) = key.get(5..)?.split_first_chunk()?;
    Some((u32::from_be_bytes(*offset), owner))
}

pub(crate) fn live(segment: u32, shard: u16) -> [u8; 7] {
    let mut key = [LIVE; 7];
    key[1..5].copy_from_slice(&segment.to_be_bytes());
    key[5..].copy_from_slice(&shard.to_be_bytes());
    key
}

pub(crate) fn live_prefix() -> [u8; 1] {
    [LIVE]
}

/// Segment and shard, from the key of a count of live bytes.
pub(crate) fn live_parts(key: &[u8]) -> Option<(u32, u16)> {
    let (segment, shard) = key.get(1..)?.split_first_chunk()?;
    Some((u32::from_be_bytes(*segment), u16::from_be_bytes(shard.try_into().ok()?)))
}

pub(crate) fn garbage_prefix(shard: u16) -> [u8; 3] {
    let mut key = [GARBAGE; 3];
    key[1..].copy_from_slice(&shard.to_be_bytes());
    key
}

pub(crate) fn garbage(node: NodeId) -> Key {
    joined(&[&garbage_prefix(node.shard()), &node.0.to_be_bytes()])
}

/// The node that is garbage, from its key.
pub(crate) fn garbage_node(key: &[u8]) -> Option<NodeId> {
    Some(NodeId(u64::from_be_bytes(*key.get(3..)?.first_chunk()?)))
}

pub(crate) fn applied(shard: u16) -> [u8; 3] {
    let mut key = [APPLIED; 3];
    key[1..].copy_from_slice(&shard.to_be_bytes());
    key
}

/// What an entry is, by its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind<'a> {
    Head(ObjectId),
    Snapshot(ObjectId, SnapshotName),
    Extent { node: NodeId, offset: u64 },
    Slot { node: NodeId, slot: u32 },
    MapEntry { node: NodeId, key: &'a [u8] },
    MapHeader { node: NodeId },
    Attribute { node: NodeId, name: &'a [u8] },
    Reference { segment: u32, offset: u32, owner: &'a [u8] },
    Live { segment: u32, shard: u16 },
    Garbage,
    Applied,
}

impl<'a> Kind<'a> {
    /// `None` if it is no key of these tables.
    pub fn of(key: &'a [u8]) -> Option<Self> {
        let (tag, rest) = key.split_first()?;
        match *tag {
            HEAD => {
                let mut names = rest.split(|byte| *byte == 0);
                let object = object_of(&mut names)?;
                names.next().is_none().then_some(Self::Head(object))
            }
            SNAPSHOT => {
                let mut names = rest.split(|byte| *byte == 0);
                let object = object_of(&mut names)?;
                let name = SnapshotName::new(std::str::from_utf8(names.next()?).ok()?).ok()?;
                names.next().is_none().then_some(Self::Snapshot(object, name))
            }
            NODE => Self::of_node(node_of(key)?, *key.get(NODE_KIND_BYTES - 1)?, suffix(key)),
            REFERENCE => {
                let (segment, _) = rest.split_first_chunk()?;
                let (offset, owner) = reference_parts(key)?;
                Some(Self::Reference { segment: u32::from_be_bytes(*segment), offset, owner })
            }
            LIVE => live_parts(key).map(|(segment, shard)| Self::Live { segment, shard }),
            GARBAGE => garbage_node(key).map(|_| Self::Garbage),
            APPLIED => (rest.len() == 2).then_some(Self::Applied),
            _ => None,
        }
    }

    fn of_node(node: NodeId, kind: u8, rest: &'a [u8]) -> Option<Self> {
        match kind {
            EXTENT => {
                let offset = u64::from_be_bytes(rest.try_into().ok()?);
                Some(Self::Extent { node, offset })
            }
            SLOT => Some(Self::Slot { node, slot: u32::from_be_bytes(rest.try_into().ok()?) }),
            MAP_ENTRY => Some(Self::MapEntry { node, key: rest }),
            MAP_HEADER => rest.is_empty().then_some(Self::MapHeader { node }),
            ATTRIBUTE => Some(Self::Attribute { node, name: rest }),
            _ => None,
        }
    }
}

fn object_of<'a>(names: &mut impl Iterator<Item = &'a [u8]>) -> Option<ObjectId> {
    let pool = PoolName::new(std::str::from_utf8(names.next()?).ok()?).ok()?;
    let name = ObjectName::new(std::str::from_utf8(names.next()?).ok()?).ok()?;
    Some(ObjectId::new(pool, name))
}

/// Every key is less than this.
pub(crate) const PAST_ALL: [u8; 1] = [u8::MAX];

/// What the keys of all entries of nodes start with.
pub(crate) const ALL_NODES: [u8; 1] = [NODE];

/// What the keys of all heads, and of all snapshots' heads, start with.
pub(crate) const ALL_HEADS: [[u8; 1]; 2] = [[HEAD], [SNAPSHOT]];

/// Returns the least key greater than every key with `prefix`, or `None` if there is no such key.
pub(crate) fn after_prefix(prefix: &[u8]) -> Option<Key> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_sort_by_offset_within_their_node() {
        let node = NodeId::new(3, 7);
        assert!(extent(node, 255) < extent(node, 256));
        assert!(extent(node, u64::MAX) < extent(NodeId::new(3, 8), 0));
        assert_eq!(extent_offset(&extent(node, 77)), 77);
        assert_eq!(node_of(&extent(node, 77)), Some(node));
        assert_eq!(node.shard(), 3);
    }

    #[test]
    fn every_key_is_parsed_as_the_kind_it_was_built_as() {
        let object: ObjectId = "pool/name".parse().unwrap();
        let name = SnapshotName::new("s").unwrap();
        let node = NodeId::new(1, 2);
        assert_eq!(Kind::of(&head(&object)), Some(Kind::Head(object.clone())));
        let taken = snapshot(&object, &name);
        assert_eq!(Kind::of(&taken), Some(Kind::Snapshot(object, name)));
        assert_eq!(Kind::of(&extent(node, 9)), Some(Kind::Extent { node, offset: 9 }));
        assert_eq!(Kind::of(&slot(node, 9)), Some(Kind::Slot { node, slot: 9 }));
        assert_eq!(Kind::of(&map_entry(node, b"")), Some(Kind::MapEntry { node, key: b"" }));
        assert_eq!(Kind::of(&map_header(node)), Some(Kind::MapHeader { node }));
        assert_eq!(Kind::of(&attribute(node, "a")), Some(Kind::Attribute { node, name: b"a" }));
        let owner = b"o".as_slice();
        let expected = Kind::Reference { segment: 3, offset: 4, owner };
        assert_eq!(Kind::of(&reference(3, 4, owner)), Some(expected));
        assert_eq!(Kind::of(&live(3, 4)), Some(Kind::Live { segment: 3, shard: 4 }));
        assert_eq!(Kind::of(&garbage(node)), Some(Kind::Garbage));
        assert_eq!(Kind::of(&applied(1)), Some(Kind::Applied));
        for nonsense in [b"".as_slice(), b"h", b"hx", b"n", b"nabcdefgh?", b"z", b"q"] {
            assert_eq!(Kind::of(nonsense), None, "{nonsense:?}");
        }
    }

    #[test]
    fn the_end_of_a_prefix_is_past_all_its_keys() {
        assert_eq!(after_prefix(b"ab").as_deref(), Some(b"ac".as_slice()));
        assert_eq!(after_prefix(&[7, 255]).as_deref(), Some([8].as_slice()));
        assert_eq!(after_prefix(&[255, 255]), None);
        assert_eq!(after_prefix(b""), None);
    }

    #[test]
    fn keys_of_references_and_counts_are_parsed_into_their_parts() {
        let key = reference(9, 4096, b"owner");
        assert!(key.starts_with(&reference_prefix(9)));
        assert_eq!(reference_parts(&key), Some((4096, b"owner".as_slice())));
        assert_eq!(live_parts(&live(9, 2)), Some((9, 2)));
        let node = NodeId::new(2, 5);
        assert_eq!(garbage_node(&garbage(node)), Some(node));
    }
}
