//! Checks the list of a tree's table files, because the tree itself reads it without a check.
//!
//! The list is the file `vN`. The file `current` holds its checksum, but the tree never compares
//! it. So a flipped bit in the list could hide a table file.

use std::fs;
use std::io::{self, Cursor, ErrorKind, Read};
use std::path::Path;

use nacre_object::{Error, Result};
use xxhash_rust::xxh3::xxh3_128;

use super::list_copy::{NAME as LIST_COPY_NAME, list_in_copy};
use crate::errors;

/// An error of the operating system while reading a file of the tables.
pub(super) fn reading(path: &Path, error: &io::Error) -> Error {
    errors::io(format!("reading {}", path.display()), error)
}

/// The list of files that `current` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CurrentList {
    pub number: u64,
    /// xxh3 of the list's file.
    checksum: u128,
}

impl CurrentList {
    /// Whether this is the content of the list's file.
    pub fn matches(&self, list: &[u8]) -> bool {
        xxh3_128(list) == self.checksum
    }
}

/// Reads `current`, the file that names the list of table files. `None` if there is no tree yet, or
/// a crash interrupted its creation.
///
/// The 25 bytes of `current`: number of the list u64, xxh3 of the list's file u128, and a 0 for
/// this kind of checksum.
///
/// # Errors
/// `Corrupt` if `current` names no list, or any error of the disk.
pub(super) fn current_list(tree: &Path) -> Result<Option<CurrentList>> {
    let path = tree.join("current");
    let current = match fs::read(&path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        current => current.map_err(|error| reading(&path, &error))?,
    };
    parse_current(&current, tree).map(Some)
}

/// Length of `current`.
pub(super) const CURRENT_BYTES: usize = 8 + 16 + 1;

/// Parses the content of a tree's file `current`.
///
/// # Errors
/// `Corrupt` if it names no list.
pub(super) fn parse_current(current: &[u8], tree: &Path) -> Result<CurrentList> {
    let parse = || {
        let (number, rest) = current.split_first_chunk()?;
        let (checksum, kind) = rest.split_first_chunk()?;
        let (number, checksum) = (u64::from_le_bytes(*number), u128::from_le_bytes(*checksum));
        (kind == [0]).then_some(CurrentList { number, checksum })
    };
    parse().ok_or_else(|| names_no_list(tree))
}

fn names_no_list(tree: &Path) -> Error {
    Error::corrupt("the file does not name a list of table files")
        .on(tree.join("current").display())
}

/// Checks the list of a tree's files.
///
/// # Errors
/// `Corrupt`, naming the damaged file.
pub(crate) fn check_list(tree: &Path) -> Result<()> {
    let Some(current) = current_list(tree)? else { return Ok(()) };
    read_list(tree, &current).map(drop)
}

fn read_list(tree: &Path, current: &CurrentList) -> Result<Vec<u8>> {
    let list = tree.join(format!("v{}", current.number));
    let content = fs::read(&list).map_err(|error| match error.kind() {
        ErrorKind::NotFound => names_no_list(tree),
        _ => reading(&list, &error),
    })?;
    if !current.matches(&content) {
        let text = "this list of table files, or the file that names it, is damaged";
        return Err(Error::corrupt(text).on(list.display()));
    }
    Ok(content)
}

/// A file of tables as a tree's list names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListedFile {
    pub number: u64,
    /// xxh3 of all of it.
    pub checksum: u128,
}

/// Returns the table files of a tree, newest level first. The tree's list and a copy of the list
/// name the files. If either is damaged, this reads the other one, and also returns an error that
/// describes the damage.
///
/// # Errors
/// `Corrupt` naming the damaged file if both are damaged, or any error of the disk.
pub(crate) fn listed_files(tree: &Path) -> Result<(Vec<ListedFile>, Option<Error>)> {
    let own = current_list(tree).and_then(|current| match current {
        Some(current) => read_list(tree, &current),
        None => Err(Error::corrupt("the file is missing").on(tree.join("current").display())),
    });
    match own {
        Ok(list) => {
            let copy = tree.join(LIST_COPY_NAME);
            let wrong = list_in_copy(tree).err().filter(|_| copy.exists());
            Ok((files_named_in(&list)?, wrong.map(|error| error.on(copy.display()))))
        }
        Err(error) => match list_in_copy(tree) {
            Ok(list) => Ok((files_named_in(&list)?, Some(error))),
            Err(_) => Err(error),
        },
    }
}

/// Parses a list of table files. The caller has checked the list against its checksum.
///
/// The section `tables` of the list holds: number of levels u8; for each level its number of runs
/// u8; for each run its number of files u32; for each file its number u64, the kind of its checksum
/// u8, its checksum u128 and a sequence number u64.
///
/// # Errors
/// `Corrupt` if the bytes are not a list.
fn files_named_in(list: &[u8]) -> Result<Vec<ListedFile>> {
    let damaged = || Error::corrupt("the list of table files is malformed");
    let archive = sfa::Reader::from_reader(&mut Cursor::new(list)).map_err(|_| damaged())?;
    let section = archive.toc().section(b"tables").ok_or_else(damaged)?;
    let mut from = list.get(section.pos() as usize..).ok_or_else(damaged)?;
    files_in(&mut from).map_err(|_| damaged())
}

fn files_in(from: &mut impl Read) -> io::Result<Vec<ListedFile>> {
    const SEQUENCE_NUMBER_BYTES: usize = 8;
    let mut files = Vec::new();
    for _level in 0..take::<1>(from)?[0] {
        for _run in 0..take::<1>(from)?[0] {
            for _file in 0..u32::from_le_bytes(take(from)?) {
                let number = u64::from_le_bytes(take(from)?);
                let _kind_of_checksum = take::<1>(from)?;
                files.push(ListedFile { number, checksum: u128::from_le_bytes(take(from)?) });
                take::<SEQUENCE_NUMBER_BYTES>(from)?;
            }
        }
    }
    Ok(files)
}

fn take<const BYTES: usize>(from: &mut impl Read) -> io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}
