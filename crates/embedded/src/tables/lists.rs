//! The list of a tree's files, checked where the tree takes it on trust.
//!
//! The file `vN` says which files of sorted entries make up a tree. Its checksum is in the file `current`,
//! and is never compared by the tree; a flipped bit could hide a file.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use nacre_object::{Error, Result};
use xxhash_rust::xxh3::xxh3_128;

use crate::errors;

/// An error of the operating system while reading a file of the tables.
pub(super) fn reading(path: &Path, error: &io::Error) -> Error {
    errors::io(format!("reading {}", path.display()), error)
}

/// Checks the list of a tree's files.
///
/// `current` is the number of the list u64, the xxh3 of its file u128 and a 0 for that kind of
/// checksum.
///
/// # Errors
/// `Corrupt` with the file that is damaged.
pub(crate) fn check_list(tree: &Path) -> Result<()> {
    let path = tree.join("current");
    let current = match fs::read(&path) {
        // A tree that is being made, or was when its maker died.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotADirectory => return Ok(()),
        current => current.map_err(|error| reading(&path, &error))?,
    };
    let damaged = || Error::corrupt("it does not name a list of files").on(path.display());
    let (number, rest) = current.split_first_chunk().ok_or_else(damaged)?;
    let (checksum, kind) = rest.split_first_chunk().ok_or_else(damaged)?;
    if kind != [0] {
        return Err(damaged());
    }
    let list = tree.join(format!("v{}", u64::from_le_bytes(*number)));
    let content = fs::read(&list).map_err(|error| match error.kind() {
        ErrorKind::NotFound => damaged(),
        _ => reading(&list, &error),
    })?;
    if xxh3_128(&content) != u128::from_le_bytes(*checksum) {
        let text = "a list of files fails its checksum, or the file that names it does";
        return Err(Error::corrupt(text).on(list.display()));
    }
    Ok(())
}
