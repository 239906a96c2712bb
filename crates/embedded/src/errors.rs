//! What went wrong underneath, in the words of [`nacre_object::ErrorKind`].

use std::fmt::Display;
use std::io;

use nacre_object::Error;

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

/// An error of the tables. Their files name each other, so one that is missing, short or makes no
/// sense is damage.
pub(crate) fn tables(error: &fjall::Error) -> Error {
    match error {
        fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => {
            match error.kind() {
                // Where a file is missing that tells of others, these are made anew, and exist.
                io::ErrorKind::NotFound
                | io::ErrorKind::AlreadyExists
                | io::ErrorKind::InvalidData
                | io::ErrorKind::InvalidInput
                | io::ErrorKind::UnexpectedEof => Error::corrupt(format!("the tables: {error}")),
                _ => self::io("the tables", error),
            }
        }
        fjall::Error::Storage(fjall::LsmError::ChecksumMismatch { .. }) => {
            Error::corrupt("the tables: a block fails its checksum")
        }
        fjall::Error::InvalidVersion(_) => Error::unsupported("the tables are of another format")
            .hint("use the release of nacre that wrote them, or a later one"),
        // Also if a compaction met a damaged block.
        fjall::Error::Poisoned => Error::unavailable(
            "the tables stopped: writing or compacting them in the background failed, by the disk or by damage",
        )
        .hint("see to the disk, then open the store again; `nacre scrub` finds damage"),
        fjall::Error::Locked => Error::unavailable("the tables are in use by another process"),
        other => Error::corrupt(format!("the tables: {other:?}")),
    }
}

/// There is no room.
pub(crate) fn disk_full(text: impl Into<String>) -> Error {
    Error::exhausted(text)
        .hint("remove objects or free space on the disk; reads and removals go on meanwhile")
}
