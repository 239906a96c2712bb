//! Every bound on what a request may name, carry or return, with its reason.
//!
//! Beyond a bound the caller gets `Invalid` (a name or value that can never be accepted) or
//! `Exhausted` (a total that is full).

/// The longest object name. RADOS accepts 2048 bytes (`osd_max_object_name_len`), so there is room
/// for a prefix.
pub const MAX_OBJECT_NAME_BYTES: usize = 1024;
/// Pools, classes, methods, targets, snapshots, entities: identifiers, not data.
pub const MAX_IDENTIFIER_BYTES: usize = 128;
/// The longest key of an object's map. It is long enough for a path, and short enough that an index
/// block holds several.
pub const MAX_MAP_KEY_BYTES: usize = 4 * 1024;
/// A map value. Larger values belong in the byte stream.
pub const MAX_MAP_VALUE_BYTES: usize = 1024 * 1024;
/// The longest name of an attribute, as RADOS limits it (`osd_max_attr_name_len` is 100 by default,
/// and at most 255 on disk).
pub const MAX_ATTRIBUTE_NAME_BYTES: usize = 255;
/// An attribute's value, as RADOS limits it.
pub const MAX_ATTRIBUTE_VALUE_BYTES: usize = 64 * 1024;
/// Attributes of one object: they are read together.
pub const MAX_ATTRIBUTES: usize = 256;
/// The byte stream of one object, as RADOS limits it (`osd_max_object_size`).
pub const MAX_OBJECT_BYTES: u64 = 128 * 1024 * 1024;
/// Ops in one transaction.
pub const MAX_OPS: usize = 1024;
/// How many map keys all ops of one request may name together. Each key costs a look-up and some
/// hundred bytes of memory, even if it is short.
pub const MAX_REQUEST_KEYS: usize = 65_536;
/// Payload of one request, all ops together.
pub const MAX_REQUEST_BYTES: usize = 8 * 1024 * 1024;
/// Payload of one reply, all results together.
pub const MAX_REPLY_BYTES: usize = 8 * 1024 * 1024;
/// How many entries, values and names one reply may have. Each takes some bytes of the message and
/// about a hundred bytes of memory, even if it is short.
pub const MAX_REPLY_ENTRIES: usize = MAX_REPLY_BYTES / 16;
/// How many bytes one transaction may write, including the writes of its class methods. The engine
/// keeps them in memory and logs them as one record.
pub const MAX_TRANSACTION_BYTES: usize = 32 * 1024 * 1024;
/// Entries returned by one map range; the caller pages on.
pub const MAX_MAP_RANGE_ENTRIES: usize = 4096;
/// Names returned by one listing page; the caller pages on.
pub const MAX_LIST_ENTRIES: usize = 4096;
/// What a notification carries: word of a change, not the change.
pub const MAX_NOTIFY_BYTES: usize = 64 * 1024;
/// How many events may wait for one watcher. A burst of commits or notifications fits.
pub const MAX_QUEUED_EVENTS: usize = 1024;
/// How many bytes all notifications that wait for one watcher may carry.
pub const MAX_QUEUED_NOTIFY_BYTES: usize = 1024 * 1024;
/// Snapshots kept of one object.
pub const MAX_SNAPSHOTS: usize = 64;
/// How many extents and map entries an object may have if a snapshot of it is to be made. The bound
/// exists because making a snapshot is one transaction.
pub const MAX_SNAPSHOT_ENTRIES: usize = 65_536;
/// The largest position or epoch. Scripts get numbers as doubles, which are exact up to this
/// number.
pub const MAX_EXACT_INTEGER: u64 = 1 << 53;

const _: () = assert!(MAX_MAP_VALUE_BYTES < MAX_REQUEST_BYTES);
const _: () = assert!(MAX_MAP_RANGE_ENTRIES <= MAX_REQUEST_KEYS, "what was read can be written");
const _: () = assert!(MAX_SNAPSHOT_ENTRIES <= MAX_REQUEST_KEYS, "a copy of one is written at once");
const _: () = assert!(MAX_REQUEST_BYTES <= MAX_TRANSACTION_BYTES);
const _: () = assert!(MAX_NOTIFY_BYTES <= MAX_QUEUED_NOTIFY_BYTES);
const _: () = assert!(MAX_OBJECT_BYTES < MAX_EXACT_INTEGER);
const _: () = assert!(MAX_ATTRIBUTES * MAX_ATTRIBUTE_VALUE_BYTES <= MAX_TRANSACTION_BYTES);
