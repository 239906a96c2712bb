//! Keeps a second copy of the list of a tree's table files. The copy is used when `current`, or the
//! list that it names, is damaged.
//!
//! At the end of every flush and every merge, the tree writes the list `vN` and then `current`,
//! which names it. Without a copy, a flipped bit in either file would keep the tree from opening.
//! The format of the copy, format 1, little-endian:
//!
//! ```text
//! "NACRELST", format u32, the 25 bytes of `current`, the bytes of the list, crc32c u32 of it all
//! ```
//!
//! **Invariant:** before a table file is deleted, a copy of a list without that file is durable. So
//! a flush or merge stores the copy before it releases older versions, and only one thread stores
//! it at a time. A crash may come after the tree wrote its list and before the copy is written. All
//! files of the older copy then still exist, and the journal replays the entries of newer files.

use std::fs;
use std::io;
use std::path::Path;

use nacre_object::{Error, ErrorKind, Result};

use super::lists::{CURRENT_BYTES, check_list, current_list, parse_current, reading};
use crate::entry::codec::{Put, Take};
use crate::errors;

const MAGIC: &[u8; 8] = b"NACRELST";
const FORMAT: u32 = 1;
pub(super) const NAME: &str = "list.copy";
/// `current` and the list it names are read again until they match, at most so many times.
const MAX_READINGS: usize = 20;

/// What the copy holds.
#[derive(Debug, PartialEq, Eq)]
struct ListCopy {
    /// The content of `current`.
    current: Vec<u8>,
    /// The content of the list that it names.
    list: Vec<u8>,
}

impl ListCopy {
    /// What the tree in a folder has now.
    fn of(tree: &Path) -> Result<Self> {
        check_list(tree)?;
        let read = |name: &str| {
            let path = tree.join(name);
            fs::read(&path).map_err(|error| reading(&path, &error))
        };
        let current = read("current")?;
        let list = read(&format!("v{}", parse_current(&current, tree)?.number))?;
        Ok(Self { current, list })
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.put_u32(FORMAT);
        out.put_bytes(&self.current);
        out.put_bytes(&self.list);
        out.put_u32(crc32c::crc32c(&out));
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let damaged = || Error::corrupt("the copy of the list of table files fails its checksum");
        let (content, crc) =
            bytes.split_at_checked(bytes.len().saturating_sub(4)).ok_or_else(damaged)?;
        let mut from = Take(content);
        if crc32c::crc32c(content).to_le_bytes() != crc || from.bytes(MAGIC.len())? != MAGIC {
            return Err(damaged());
        }
        let format = from.u32()?;
        if format != FORMAT {
            return Err(Error::unsupported(format!("the copy has the unknown format {format}"))
                .hint("a later release of nacre wrote it: use that one, or a later one"));
        }
        Ok(Self { current: from.bytes(CURRENT_BYTES)?.to_vec(), list: from.0.to_vec() })
    }

    fn read(tree: &Path) -> Result<Self> {
        let path = tree.join(NAME);
        let bytes = fs::read(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::corrupt("the file is missing").on(path.display()),
            _ => reading(&path, &error),
        })?;
        let copy = Self::decode(&bytes).map_err(|error| error.on(path.display()))?;
        match parse_current(&copy.current, tree)?.matches(&copy.list) {
            true => Ok(copy),
            false => {
                Err(Error::corrupt("the list in this copy fails its checksum").on(path.display()))
            }
        }
    }
}

/// Durably copies the tree's present list of files, unless the copy is up to date. Only one thread
/// may do this at a time.
///
/// # Errors
/// Any error of the operating system.
pub(super) fn store(tree: &Path) -> io::Result<()> {
    let read = || ListCopy::of(tree);
    // Read again after a failure: between the reads of `current` and of the list, another thread
    // may replace both.
    let current = (1..MAX_READINGS).fold(read(), |found, _| found.or_else(|_| read()));
    let current = current.map_err(|error| io::Error::other(error.to_string()))?;
    if ListCopy::read(tree).is_ok_and(|copy| copy == current) {
        return Ok(());
    }
    nacre_files::replace(&tree.join(NAME), &current.encode())
}

/// Checks that the copy of the list of files can be read.
///
/// # Errors
/// `Corrupt` if it is damaged or missing, or any error of the disk.
pub(crate) fn check_copy(tree: &Path) -> Result<()> {
    ListCopy::read(tree).map(drop)
}

/// Restores `current` and the list of files from the copy, if either is missing or damaged. Returns
/// what was wrong with them. If all three files are missing, the tree is new, and nothing is
/// restored.
///
/// # Errors
/// `Corrupt` if the copy is damaged too, or any error of the disk.
pub(super) fn mend(tree: &Path) -> Result<Option<Error>> {
    let wrong = match (current_list(tree), check_list(tree)) {
        (Ok(Some(_)), Ok(())) => return Ok(None),
        (Ok(None), Ok(())) if !tree.join(NAME).exists() => return Ok(None),
        (Ok(None), _) => Error::corrupt("the file is missing").on(tree.join("current").display()),
        (Err(error), _) | (_, Err(error)) => error,
    };
    if wrong.kind() != ErrorKind::Corrupt {
        return Err(wrong);
    }
    let Ok(copy) = ListCopy::read(tree) else { return Err(wrong) };
    let number = parse_current(&copy.current, tree)?.number;
    let write = || {
        nacre_files::replace(&tree.join(format!("v{number}")), &copy.list)?;
        nacre_files::replace(&tree.join("current"), &copy.current)
    };
    write().map_err(|error| {
        errors::io(format!("repairing the list of table files in {}", tree.display()), &error)
    })?;
    check_list(tree)?;
    Ok(Some(wrong))
}

/// Returns the list of files that the copy holds.
///
/// # Errors
/// `Corrupt` if the copy is damaged or missing, or any error of the disk.
pub(super) fn list_in_copy(tree: &Path) -> Result<Vec<u8>> {
    ListCopy::read(tree).map(|copy| copy.list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_of_format_1_can_be_read_and_written() {
        let copy = ListCopy { current: vec![7; CURRENT_BYTES], list: b"list".to_vec() };
        let hex: String = copy.encode().iter().map(|byte| format!("{byte:02x}")).collect();
        let expected = format!("4e414352454c535401000000{}6c697374", "07".repeat(CURRENT_BYTES));
        assert_eq!(hex[..hex.len() - 8], expected);
        assert_eq!(ListCopy::decode(&copy.encode()).unwrap(), copy);
    }

    #[test]
    fn any_flipped_bit_of_a_copy_is_noticed() {
        let copy = ListCopy { current: vec![7; CURRENT_BYTES], list: b"list".to_vec() };
        let bytes = copy.encode();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(ListCopy::decode(&flipped).is_err(), "bit {bit}");
        }
    }
}
