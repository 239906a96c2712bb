//! Every bound of the log, with its reason.

use nacre_object::limits::{MAX_MAP_VALUE_BYTES, MAX_REQUEST_BYTES};

/// The longest name of a log, which is part of the names of its map and its objects.
pub const MAX_LOG_NAME_BYTES: usize = 64;
/// How many objects a stripe may have, one for each column. A view stores 4 bytes for each column
/// of a range, and recovery seals each object of a stripe.
pub const MAX_WIDTH: u32 = 64;
/// How many entries an object may have. The bound keeps an object small enough to be removed or
/// compacted in one step.
pub const MAX_SLOTS: u32 = 1 << 20;
/// The most ranges of one view. A range is a run of positions with the same columns. Every client
/// that follows a log's views reads all ranges with each new view, and a range takes some 100
/// bytes.
pub const MAX_RANGES: usize = 256;
/// The most columns of all ranges of one view: 64 ranges of the widest stripes.
pub const MAX_COLUMNS: usize = 64 * MAX_WIDTH as usize;
/// How many ranges of a view are reserved for layouts that avoid lost targets. Two kinds of layout
/// must leave them free: a layout that a user requests, and one that uses a returned target again.
pub const RANGES_TO_GO_ROUND: usize = 16;
/// How many object names to try for a column until one lies on the wanted target. The store places
/// an object by a hash of its name. With so many tries, even a target with a thousandth of the
/// cluster's weight is found almost certainly.
pub const MAX_SALT_TRIES: u32 = 16 * 1024;
/// The longest record. A record and what is stored with it must fit into one value of a map.
pub const MAX_RECORD_BYTES: usize = MAX_MAP_VALUE_BYTES - 64;
/// Positions one request may take from a sequencer.
pub const MAX_TOKENS: u32 = 4096;
/// For how many logs one node issues positions. Each takes a few hundred bytes and a view in
/// memory.
pub const MAX_HOSTED_LOGS: usize = 16 * 1024;

/// How many entries one call writes. Larger batches gain nothing, and delay the calls that wait
/// behind them.
pub(crate) const MAX_WRITE_ENTRIES: usize = 512;
/// Data written by one call.
pub(crate) const MAX_WRITE_BYTES: usize = 2 * 1024 * 1024;
/// How many bytes one read requests in total. The objects that are read share this number. Each
/// object may exceed its share by one entry.
pub(crate) const READ_BYTES: u32 = 4 * 1024 * 1024;
/// The smallest share of [`READ_BYTES`] that one object gets, however many objects a read asks. It
/// is enough for many small entries.
pub(crate) const READ_SHARE_BYTES: u32 = 64 * 1024;
/// Positions read at a time.
pub const MAX_READ_POSITIONS: usize = 4096;
/// How many objects are trimmed or buried at the same time.
pub(crate) const MAX_BURIALS: usize = 16;
/// How many records one log handle appends at a time; the next `append` waits.
pub(crate) const MAX_APPENDS: usize = 16 * 1024;
/// How many bytes one log handle appends at a time; the next `append` waits.
pub(crate) const MAX_APPEND_BYTES: usize = 32 * 1024 * 1024;
/// What a waiting append costs besides its data.
pub(crate) const APPEND_OVERHEAD_BYTES: usize = 256;

const _: () = assert!(MAX_WRITE_BYTES + MAX_RECORD_BYTES < MAX_REQUEST_BYTES);
const _: () =
    assert!(READ_BYTES as usize + MAX_MAP_VALUE_BYTES < nacre_object::limits::MAX_REPLY_BYTES);
const _: () = assert!(MAX_RECORD_BYTES < MAX_APPEND_BYTES);
/// How many bytes a range takes in the stored view at most, without its columns.
const RANGE_BYTES: usize = 128;
/// How many bytes a column of a range takes in the stored view at most.
const COLUMN_BYTES: usize = 11;
const _: () = assert!(
    MAX_RANGES * RANGE_BYTES + MAX_COLUMNS * COLUMN_BYTES < MAX_MAP_VALUE_BYTES / 4,
    "a view is one value of a map, whose history keeps many"
);
const _: () = assert!(RANGES_TO_GO_ROUND * (MAX_WIDTH as usize) < MAX_COLUMNS);
