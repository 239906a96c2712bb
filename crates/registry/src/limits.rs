//! Every bound of maps, programs and events, with its reason.
//!
//! Maps are for small values that change rarely, because the Malacology paper keeps service
//! metadata "out of high-performance I/O paths". Therefore the bounds are so low that a whole map
//! fits into one reply, and the record of one epoch into one stored value.

use nacre_object::limits::{MAX_MAP_VALUE_BYTES, MAX_REPLY_BYTES};
use nacre_program::MAX_SOURCE_BYTES;

/// A key of a map, in bytes of UTF-8: long enough for a path of names.
pub const MAX_KEY_BYTES: usize = 512;
/// A value of a map, in bytes. Larger things belong in an object that the map names.
pub const MAX_VALUE_BYTES: usize = 64 * 1024;
/// The most entries of one map.
pub const MAX_ENTRIES: u64 = 16_384;
/// All keys and values of one map together, in bytes. They fit into one reply.
pub const MAX_MAP_BYTES: u64 = 4 * 1024 * 1024;
/// The most changes of one commit.
pub const MAX_CHANGES: usize = 1024;
/// The greatest size of all keys and values of one commit, in bytes. The record of the commit in
/// the map's history must fit into one stored value.
pub const MAX_COMMIT_BYTES: usize = 512 * 1024;
/// Bytes of the id by which a committer recognises its commit. Two random numbers fit.
pub const MAX_COMMIT_ID_BYTES: usize = 64;
/// The number of epochs that a map's history keeps. A watcher that is further behind gets the whole
/// map.
pub const MAX_HISTORY_EPOCHS: u64 = 1024;
/// How many bytes of history a map keeps; older epochs are dropped. The newest epoch is kept
/// whatever its size.
pub const MAX_HISTORY_BYTES: u64 = 16 * 1024 * 1024;
/// The most epochs in one page of history.
pub const MAX_HISTORY_PAGE: usize = 256;
/// A page is closed once it has this many bytes, because it must fit into one reply.
pub const MAX_PAGE_BYTES: usize = 2 * 1024 * 1024;
/// How many triggers of a map may wait to be carried out. (A trigger is a commit to another map
/// that the map's program asks for.) A commit that would exceed this number fails with `Exhausted`.
pub const MAX_PENDING_TRIGGERS: u64 = 1024;
/// The most triggers of one commit.
pub const MAX_TRIGGERS: usize = 16;
/// The largest number of maps in a chain of triggers, including the map of the first commit. nacre
/// takes a longer chain for an endless cycle, and refuses its next commit.
pub const MAX_TRIGGER_CHAIN: usize = 8;
/// How many versions of a program are kept. The program's record lists all of them and must fit
/// into one value of a map.
pub const MAX_VERSIONS: usize = 128;
/// How many superseded versions of a program are kept, so that people can read and compare them. A
/// superseded version is older than the active one, and no rollback reaches it.
pub const KEPT_SUPERSEDED: usize = 8;
/// Sources after which a collection ends, to be begun again.
pub const MAX_COLLECTED_SOURCES: usize = 4096;
/// How many rollbacks in a row can go back.
pub const MAX_ROLLBACKS: usize = 32;
/// Bytes of a program's last error that a node reports.
pub const MAX_STATUS_ERROR_BYTES: usize = 512;
/// The number of events that the cluster log keeps. In a busy cluster that covers some days.
pub const MAX_EVENTS: u64 = 10_000;
/// The most events in one page.
pub const MAX_EVENTS_PAGE: usize = 512;
/// The longest text of an event in bytes. A traceback fits.
pub const MAX_EVENT_TEXT_BYTES: usize = 4 * 1024;
/// Bytes of the id by which a repeated append is recognised. Two random numbers fit.
pub const MAX_APPEND_ID_BYTES: usize = 64;
/// The most fields of one event.
pub const MAX_EVENT_FIELDS: usize = 16;
/// One field of an event, in bytes.
pub const MAX_EVENT_FIELD_BYTES: usize = 1024;

const _: () = assert!(2 * MAX_MAP_BYTES as usize <= MAX_REPLY_BYTES);
const _: () = assert!(2 * MAX_COMMIT_BYTES <= MAX_MAP_VALUE_BYTES);
const _: () = assert!(MAX_VALUE_BYTES + MAX_KEY_BYTES <= MAX_COMMIT_BYTES);
// A version takes about 150 bytes of its program's record.
const _: () = assert!(MAX_VERSIONS * 256 <= MAX_VALUE_BYTES);
const _: () = assert!(MAX_ROLLBACKS < MAX_VERSIONS);
// A map's program is one stored value of its object.
const _: () = assert!(MAX_SOURCE_BYTES <= MAX_MAP_VALUE_BYTES);
const _: () = assert!(MAX_PAGE_BYTES + MAX_MAP_VALUE_BYTES <= MAX_REPLY_BYTES);
