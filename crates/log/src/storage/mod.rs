//! The storage interface of the log: what an object of a stripe can do (CORFU, section 3).
//!
//! There are three implementations. The native class [`log_class`] and the program
//! `programs/class/log.lua` behave alike and store alike, so one can replace the other on live
//! objects. The Brados program `programs/class/log.brados` has the stored format that its compiler
//! chooses, and its requests and replies are rows (`rows`). One suite of cases runs on all three
//! (`tests/suite/storage_cases.txt`).
//!
//! The rest of this page describes the native class and the Lua program.
//!
//! # Stored format
//!
//! An object's map holds its entries. The map's header holds the data that concerns all of them.
//!
//! | where | what |
//! | --- | --- |
//! | map header | `NLOG`, format 1 (u32), epoch, trim end, reclaim end (u64 each), their checksum (u32); little-endian |
//! | map key | `e`, then the position, 8 bytes big-endian, so key order is position order |
//! | map value | `D` and the data; or `F` alone, filled; or `T` alone, trimmed |
//!
//! # Methods
//!
//! Numbers are little-endian. Positions are below 2^53 − 1 and epochs below 2^53.
//!
//! | method | input | output |
//! | --- | --- | --- |
//! | `seal` | epoch u64 | `max_position`'s |
//! | `max_position` | – | u8: is there any; u64: the maximum position, else 0 |
//! | `read` | epoch u64, position u64 | the data |
//! | `write` | epoch u64, position u64, data to the end | – |
//! | `fill`, `trim` | epoch u64, position u64 | – |
//! | `trim_to` | epoch u64, position u64 | u8: whether entries are left to be reclaimed |
//! | `read_batch` | epoch u64, byte limit u32, count u32, positions u64 | an [`EntryState`] each, as far as the limit goes, at least one |
//! | `write_batch` | epoch u64, count u32, then position u64, length u32, data each | a status i32 each; nothing if all are 0 |
//! | `fill_batch` | epoch u64, count u32, positions u64 | as for `write_batch` |
//!
//! # Invariants
//!
//! - A position changes only in these ways: unwritten → data → trimmed, or unwritten → filled →
//!   trimmed.
//! - An operation with an epoch older than the sealed one changes nothing and returns no data.
//! - The maximum position never falls, even after a trim.

mod class;
mod client;
mod dialect;
mod entry;
#[cfg(test)]
mod fuzz_tests;
mod header;
mod packed;
mod rows;

use nacre_object::ClassName;

pub use class::log_class;
pub(crate) use client::{Addressed, StorageClient};
pub use dialect::storage_methods;
pub(crate) use dialect::{CallFailure, CallResult};
pub(crate) use entry::EntryState;
pub(crate) use packed::MAX_BATCH_ENTRIES;

/// The epoch of buried objects. No view has this epoch, so buried objects refuse every request.
pub(crate) const LAST_EPOCH: u64 = (1 << 53) - 1;

/// The name of the class when it is native.
pub const NATIVE_CLASS: &str = "log_native";
/// The class name of the Lua program in the standard library.
pub const PROGRAM_CLASS: &str = "log";

/// The class name of the Brados program in the standard library. The names of other Brados programs
/// with the same interface begin with it. Requests and replies of all these classes are rows.
pub const BRADOS_CLASS: &str = "log_brados";

/// Whether a class is a Brados program. Then its requests and replies are rows, and the Brados
/// compiler chooses its stored format.
pub(crate) fn speaks_rows(class: &ClassName) -> bool {
    class.as_str().starts_with(BRADOS_CLASS)
}

/// Statuses of the storage interface, as the public ZLog class has them.
pub(crate) mod status {
    use nacre_object::Status;

    /// The object was never sealed.
    pub const ENOENT: Status = -2;
    /// The header or the entry is damaged.
    pub const EIO: Status = -5;
    /// The input makes no sense, or the epoch is 0.
    pub const EINVAL: Status = -22;
    /// The epoch is older than the object's.
    pub const ESPIPE: Status = -29;
    /// The position cannot be written any more.
    pub const EROFS: Status = -30;
    /// The position is unwritten.
    pub const ERANGE: Status = -34;
    /// The position holds no data and never will.
    pub const ENODATA: Status = -61;
}
