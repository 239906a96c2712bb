//! Copies every readable entry of a damaged store's tables into new tables.
//!
//! Each table file is read by itself, so that one damaged file does not hide the others. If several
//! files hold versions of one key, their sequence numbers decide which is the latest. So the copies
//! keep these numbers.

use std::fs;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use lsm_tree::{Cache, Checksum, DescriptorTable, InternalValue, Table};
use nacre_object::{Error, Result};

use super::{Salvaged, TABLE_MEMORY_BYTES};
use crate::entry::key::{Key, Kind, PAST_ALL};
use crate::entry::value::Value;
use crate::errors;
use crate::scrub::{Damage, checksum, end_of_unreadable, successor};
use crate::tables::{FILES_FOLDER, Tables, listed_files};

/// Saves the tables of the folder `from` into `to`. Returns whether all table files could be read.
///
/// # Errors
/// Any error of the disk on which the new tables lie.
pub(super) fn save(from: &Path, to: &Path, salvaged: &mut Salvaged) -> Result<bool> {
    let new = Tables::open(to, TABLE_MEMORY_BYTES, TABLE_MEMORY_BYTES)?;
    let files = files_of(from, salvaged);
    let mut is_whole = !files.is_empty();
    for (number, expected) in files {
        let place = format!("tree/{FILES_FOLDER}/{number}");
        let path = from.join(FILES_FOLDER).join(number.to_string());
        // Salvage does not use a file's filter and index, so their damage loses nothing here. It is
        // reported all the same, because a read of the damaged folder would miss entries.
        if expected.is_some_and(|expected| checksum(&path, &mut 0).ok() != Some(expected)) {
            let problem = "this table file fails its checksum";
            salvaged.damages.push(Damage::of_store(place.as_str(), problem));
        }
        match open(&path, number) {
            Ok(table) => {
                salvaged.table_files += 1;
                is_whole &= save_entries(&table, &place, &new, salvaged)?;
            }
            Err(problem) => {
                is_whole = false;
                salvaged.damages.push(Damage::of_store(place, problem));
            }
        }
    }
    new.seal();
    new.write_sealed()?;
    Ok(is_whole)
}

/// Returns the numbers of the table files, with the checksums from the list of files. A file that
/// neither the list nor its copy names has no checksum.
fn files_of(tree: &Path, salvaged: &mut Salvaged) -> Vec<(u64, Option<u128>)> {
    let mut note = |error: Error| {
        let place = error.object().unwrap_or("tree").to_owned();
        salvaged.damages.push(Damage::of_store(place, error.message()));
    };
    match listed_files(tree) {
        Ok((files, wrong)) => {
            wrong.map(note);
            files.into_iter().map(|file| (file.number, Some(file.checksum))).collect()
        }
        Err(error) => {
            note(error);
            let entries = fs::read_dir(tree.join(FILES_FOLDER)).into_iter().flatten().flatten();
            let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
            let mut numbers: Vec<u64> = entries.filter_map(number).collect();
            numbers.sort_unstable();
            numbers.into_iter().map(|number| (number, None)).collect()
        }
    }
}

fn open(path: &Path, number: u64) -> Result<Table, String> {
    let cache = Arc::new(Cache::with_capacity_bytes(TABLE_MEMORY_BYTES));
    let files = Some(Arc::new(DescriptorTable::new(1)));
    let unchecked = Checksum::from_raw(0);
    let open = || Table::recover(path.to_owned(), unchecked, 0, number, cache, files, false, false);
    // For some damage the tree panics instead of returning an error.
    match catch_unwind(AssertUnwindSafe(open)) {
        Ok(table) => table.map_err(|error| errors::tables(&error).message().to_owned()),
        Err(_) => Err("a file of tables cannot be opened".to_owned()),
    }
}

/// Saves the entries of a file; returns whether all could be read.
fn save_entries(table: &Table, place: &str, new: &Tables, salvaged: &mut Salvaged) -> Result<bool> {
    let damages = salvaged.damages.len();
    let mut from = Vec::new();
    while let Some(problem) = save_from(table, &mut from, new, place, salvaged)? {
        let is_readable = |key: &[u8]| !matches!(next(table, key), Some(Err(_)));
        let end = end_of_unreadable(&from, &PAST_ALL, is_readable);
        salvaged.damages.push(Damage::of_store(place, problem));
        if end.as_slice() >= PAST_ALL.as_slice() {
            break;
        }
        from = end;
    }
    Ok(salvaged.damages.len() == damages)
}

fn next(table: &Table, from: &[u8]) -> Option<Result<InternalValue, lsm_tree::Error>> {
    let range = (Bound::Included(Key::from(from)), Bound::Unbounded);
    let next = || table.range(range).next();
    catch_unwind(AssertUnwindSafe(next)).unwrap_or(Some(Err(lsm_tree::Error::Unrecoverable)))
}

/// Saves entries of a file from the key `from` on. If the file becomes unreadable, returns the
/// error and sets `from` to the key after the last saved entry.
fn save_from(
    table: &Table,
    from: &mut Vec<u8>,
    new: &Tables,
    place: &str,
    salvaged: &mut Salvaged,
) -> Result<Option<String>> {
    let range = (Bound::Included(Key::from(from.as_slice())), Bound::Unbounded);
    for entry in table.range(range) {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => return Ok(Some(errors::tables(&error).message().to_owned())),
        };
        let key = &entry.key.user_key;
        *from = successor(key);
        let is_whole = entry.is_tombstone() || Value::decode(key, &entry.value).is_ok();
        if is_whole && Kind::of(key).is_some() {
            salvaged.entries += 1;
            new.restore(entry);
            new.write_if_full()?;
        } else {
            let problem = format!("the entry {key:02x?} fails its checksum");
            salvaged.damages.push(Damage::of_store(place, problem));
        }
    }
    Ok(None)
}
