//! Converts errors of the operating system and of the tables to [`nacre_object::ErrorKind`].

use std::fmt::Display;
use std::io;

use nacre_object::{Error, ErrorKind};

/// An error of the operating system while doing `what`.
pub(crate) fn io(what: impl Display, error: &io::Error) -> Error {
    let text = format!("{what}: {error}");
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => disk_full(text),
        io::ErrorKind::UnexpectedEof => Error::corrupt(text),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Error::denied(text),
        _ => Error::unavailable(text),
    }
}

/// Converts an error of the tables. Table files refer to each other, so a missing, short or
/// malformed file means damage.
pub(crate) fn tables(error: &lsm_tree::Error) -> Error {
    match error {
        lsm_tree::Error::Io(error) => files_of_tables(error),
        lsm_tree::Error::ChecksumMismatch { .. } => {
            Error::corrupt("the tables: a block fails its checksum").hint(FIND_DAMAGE)
        }
        lsm_tree::Error::InvalidVersion(_) => other_format(),
        other => Error::corrupt(format!("the tables: {other:?}")),
    }
}

/// Converts an error of a flush or merge in the background. Unless the disk was full, the tables
/// take no more writes after it.
pub(crate) fn tables_stopped(error: &lsm_tree::Error) -> Error {
    let error = tables(error);
    match error.kind() {
        ErrorKind::Exhausted => error,
        _ => error.hint("see to the disk, then open the store again; `nacre scrub` finds damage"),
    }
}

fn files_of_tables(error: &io::Error) -> Error {
    match error.kind() {
        // A missing file is damage too. So is a file that exists already: if the list of table
        // files is lost, the tree begins anew with file numbers that are already used.
        io::ErrorKind::NotFound
        | io::ErrorKind::AlreadyExists
        | io::ErrorKind::InvalidData
        | io::ErrorKind::InvalidInput
        | io::ErrorKind::UnexpectedEof => Error::corrupt(format!("the tables: {error}")),
        _ => self::io("the tables", error),
    }
}

fn other_format() -> Error {
    Error::unsupported("the tables have another format")
        .hint("use the release of nacre that wrote them, or a later one")
}

/// The hint for a full disk. The store goes on by itself once there is space.
const FREE_SPACE: &str = "remove objects (`nacre object rm`), trim logs (`nacre log trim`), or delete other files on \
    this disk; writes go on by themselves once there is room, and reads and removals meanwhile";

/// The hint for stored data that is damaged.
pub(crate) const FIND_DAMAGE: &str =
    "`nacre scrub` names the damaged objects; write them again, or restore them";

/// The error of a full disk.
pub(crate) fn disk_full(text: impl Into<String>) -> Error {
    Error::exhausted(text).hint(FREE_SPACE)
}
