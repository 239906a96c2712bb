//! The tables of format 1, which fjall kept, taken over.
//!
//! fjall's keyspace is a tree as ours is, beside journals of fjall's that may have more than its files. So
//! fjall opens them once more, what only its journals have is written to files, and these come to where ours
//! are expected. **Invariant:** a crash at any moment leaves either fjall's folder as good as it was, or
//! the whole tree at its new place.
//!
//! fjall's files carry checksums wherever they are read, but two things it takes on trust, which are checked
//! before it opens them:
//!
//! - the lists of files ([`check_list`]);
//! - the start of a batch in its journal, with the number that orders the batch among others; and a
//!   journal that ends early for whatever reason is cut off there and taken as whole.
//!
//! They are opened only if the batches of all journals are whole and rise. Only the newest journal may end
//! in a torn batch, as it alone may have been written to when power failed; it is cut there, since some torn
//! batches would keep fjall from opening. What that loses the engine's own journal has, or the manifest tells.
//!
//! The formats are those of fjall's format version 3, which it promises not to change.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use fjall::{AbstractTree, Database, KeyspaceCreateOptions};
use nacre_object::{Error, Result};
use xxhash_rust::xxh3::Xxh3;

use super::lists::{check_list, reading};
use crate::errors;

const KEYSPACE: &str = "nacre";

/// Numbers with the highest bit set are fjall's own.
const MAX_BATCH_NUMBER: u64 = (1 << 63) - 1;
const BATCH_START: u8 = 1;
const BATCH_ITEM: u8 = 2;
const BATCH_END: u8 = 3;
const BATCH_TRAILER: [u8; 4] = [b'F', b'J', b'L', 3];
/// Read at a time when looking for zeros.
const ZERO_CHECK_BYTES: usize = 1024 * 1024;
/// Tag, kind of value, compression, keyspace, lengths of key, of value and of value as stored.
const ITEM_HEADER_BYTES: usize = 1 + 1 + 1 + 8 + 2 + 4 + 4;

/// Makes the tree that fjall kept in `folder` one at `tree`, with all that fjall's journals have; nothing if
/// that was done before. `folder` is of no use then.
///
/// # Errors
/// `Corrupt` if what is there cannot be read back; what the disk says.
pub(crate) fn take_over(folder: &Path, tree: &Path) -> Result<()> {
    if tree.exists() {
        return Ok(());
    }
    check_before_opening(folder)?;
    // Some damage makes fjall panic rather than say so.
    let write = AssertUnwindSafe(|| write_to_files(folder));
    let keyspace = match catch_unwind(write) {
        Ok(result) => result.map_err(|error| errors::fjall(&error))?,
        Err(_) => return Err(Error::corrupt("the tables cannot be opened")),
    };
    let begun = tree.with_extension("new");
    let moved = || -> io::Result<()> {
        if begun.exists() {
            fs::remove_dir_all(&begun)?;
        }
        give_names(&keyspace, &begun)?;
        fs::rename(&begun, tree)?;
        tree.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
    };
    moved().map_err(|error| errors::io(format!("moving {}", keyspace.display()), &error))
}

/// Gives the files of a folder, and of those in it, a name in another as well, or copies them where the file
/// system cannot. A move to another folder might after a crash be seen in both or in neither.
fn give_names(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let (entry, target) = entry.map(|entry| (entry.path(), to.join(entry.file_name())))?;
        if entry.is_dir() {
            give_names(&entry, &target)?;
        } else if fs::hard_link(&entry, &target).is_err() {
            fs::copy(&entry, &target)?;
            File::open(&target)?.sync_all()?;
        }
    }
    File::open(to)?.sync_all()
}

/// Has everything that fjall keeps in `folder` in files; answers in which folder these are.
fn write_to_files(folder: &Path) -> fjall::Result<PathBuf> {
    let database = Database::builder(folder).worker_threads(1).open()?;
    let keyspace = database.keyspace(KEYSPACE, KeyspaceCreateOptions::default)?;
    keyspace.tree.flush_active_memtable(0)?;
    Ok(keyspace.path().to_path_buf())
}

/// Checks the files of tables that nobody has open, and cuts a torn batch off the newest journal.
///
/// # Errors
/// `Corrupt` with the file, if fjall could take what is there for something else.
pub(crate) fn check_before_opening(folder: &Path) -> Result<()> {
    check_versions(folder)?;
    let journals = list_journals(folder).map_err(|error| reading(folder, &error))?;
    let mut last_number = None;
    let Some((newest, sealed)) = journals.split_last() else { return Ok(()) };
    for journal in sealed {
        let end = read_journal(journal, &mut last_number)?;
        if end.is_torn || !is_zero_from(journal, end.offset)? {
            let text = format!("a batch at byte {} is damaged", end.offset);
            return Err(Error::corrupt(text).on(journal.display()));
        }
    }
    let end = read_journal(newest, &mut last_number)?;
    if end.is_torn {
        cut(newest, end.offset).map_err(|error| reading(newest, &error))?;
    }
    Ok(())
}

/// Checks the lists of tables of all keyspaces.
///
/// # Errors
/// `Corrupt` with the file that is damaged.
fn check_versions(folder: &Path) -> Result<()> {
    let keyspaces = folder.join("keyspaces");
    let entries = match fs::read_dir(&keyspaces) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|error| reading(&keyspaces, &error))?,
    };
    for entry in entries {
        let keyspace = entry.map_err(|error| reading(&keyspaces, &error))?.path();
        check_list(&keyspace)?;
    }
    Ok(())
}

/// fjall's journals, oldest first.
fn list_journals(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut journals = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = name.strip_suffix(".jnl").and_then(|number| number.parse::<u64>().ok());
        journals.extend(number.map(|number| (number, path)));
    }
    journals.sort();
    Ok(journals.into_iter().map(|(_, path)| path).collect())
}

/// Where the whole batches of a journal end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
struct JournalEnd {
    offset: u64,
    /// Whether the beginning of a batch follows.
    is_torn: bool,
}

/// Reads batch after batch; `last_number` is that of the last one, over all journals.
fn read_journal(path: &Path, last_number: &mut Option<u64>) -> Result<JournalEnd> {
    let failed = |error: io::Error| reading(path, &error);
    let file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let mut reader = BatchReader { file: BufReader::new(file), offset: 0, length };
    let mut end = JournalEnd { offset: 0, is_torn: false };
    loop {
        match reader.batch().map_err(failed)? {
            Batch::Whole(number) => {
                if last_number.is_some_and(|last| number <= last) || number > MAX_BATCH_NUMBER {
                    let text = format!(
                        "batch {number} at byte {} comes after {last_number:?}",
                        end.offset
                    );
                    return Err(Error::corrupt(text).on(path.display()));
                }
                *last_number = Some(number);
                end.offset = reader.offset;
            }
            Batch::None => return Ok(end),
            Batch::Torn => return Ok(JournalEnd { is_torn: true, ..end }),
        }
    }
}

/// Whether a journal has nothing but the zeros it is made of from `offset` on.
fn is_zero_from(path: &Path, offset: u64) -> Result<bool> {
    let read = || -> io::Result<bool> {
        let file = File::open(path)?;
        let mut buffer = vec![0; ZERO_CHECK_BYTES];
        let mut at = offset;
        loop {
            match file.read_at(&mut buffer, at)? {
                0 => return Ok(true),
                read if buffer[..read].iter().any(|byte| *byte != 0) => return Ok(false),
                read => at += read as u64,
            }
        }
    };
    read().map_err(|error| reading(path, &error))
}

fn cut(journal: &Path, length: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(journal)?;
    file.set_len(length)?;
    file.sync_all()
}

/// What is at a place of a journal.
enum Batch {
    Whole(u64),
    /// The zeros a journal is made of, or its end.
    None,
    Torn,
}

struct BatchReader {
    file: BufReader<File>,
    offset: u64,
    length: u64,
}

impl BatchReader {
    fn batch(&mut self) -> io::Result<Batch> {
        match self.tag()? {
            None | Some(0) => return Ok(Batch::None),
            Some(BATCH_START) => {}
            Some(_) => return Ok(Batch::Torn),
        }
        let (Some(items), Some(number)) = (self.bytes::<4>()?, self.bytes::<8>()?) else {
            return Ok(Batch::Torn);
        };
        let mut hasher = Xxh3::new();
        for _ in 0..u32::from_le_bytes(items) {
            if !self.item(&mut hasher)? {
                return Ok(Batch::Torn);
            }
        }
        if self.tag()? != Some(BATCH_END) {
            return Ok(Batch::Torn);
        }
        let (checksum, trailer) = (self.bytes::<8>()?, self.bytes::<4>()?);
        let is_whole = checksum.map(u64::from_le_bytes) == Some(hasher.digest())
            && trailer == Some(BATCH_TRAILER);
        Ok(if is_whole { Batch::Whole(u64::from_le_bytes(number)) } else { Batch::Torn })
    }

    /// Reads an item into the checksum; answers whether there is one.
    fn item(&mut self, hasher: &mut Xxh3) -> io::Result<bool> {
        let Some(header) = self.bytes::<ITEM_HEADER_BYTES>()? else { return Ok(false) };
        let key = u16::from_le_bytes([header[11], header[12]]);
        let size = |at: usize| header[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
        let (value, stored) = (size(13), size(17));
        // Items are not compressed here, so the two lengths are one.
        let body = u64::from(key) + u64::from(stored);
        let fits = self.offset + body <= self.length;
        if header[0] != BATCH_ITEM || value != stored || !fits {
            return Ok(false);
        }
        let mut bytes = vec![0; body as usize];
        self.file.read_exact(&mut bytes)?;
        self.offset += body;
        hasher.update(&header);
        hasher.update(&bytes);
        Ok(true)
    }

    fn tag(&mut self) -> io::Result<Option<u8>> {
        Ok(self.bytes::<1>()?.map(|[tag]| tag))
    }

    /// `None` at the end of the file.
    fn bytes<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        if self.offset + N as u64 > self.length {
            return Ok(None);
        }
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes)?;
        self.offset += N as u64;
        Ok(Some(bytes))
    }
}

#[cfg(test)]
mod tests {
    use fjall::{Database, KeyspaceCreateOptions, PersistMode};
    use tempfile::TempDir;

    use super::*;

    const BATCHES: u8 = 4;

    /// A folder as fjall leaves it, with some batches in its journal.
    fn folder() -> TempDir {
        let folder = TempDir::new().unwrap();
        let database = Database::builder(folder.path()).open().unwrap();
        let keyspace = database.keyspace("a", KeyspaceCreateOptions::default).unwrap();
        for n in 0..BATCHES {
            let mut batch = database.batch();
            batch.insert(&keyspace, [n], [n; 3]);
            batch.insert(&keyspace, "same", [n]);
            batch.commit().unwrap();
        }
        database.persist(PersistMode::SyncAll).unwrap();
        drop((keyspace, database));
        // Without most of the zeros it is made of: they would be written again for each bit.
        let journal = journal_of(&folder);
        let end = read_journal(&journal, &mut None).unwrap();
        cut(&journal, end.offset + 64).unwrap();
        folder
    }

    fn journal_of(folder: &TempDir) -> PathBuf {
        list_journals(folder.path()).unwrap().remove(0)
    }

    fn check_with(path: &Path, content: &[u8], folder: &TempDir) -> Result<()> {
        fs::write(path, content).unwrap();
        check_before_opening(folder.path())
    }

    #[test]
    fn any_flipped_bit_of_a_list_of_tables_is_noticed() {
        let folder = folder();
        check_before_opening(folder.path()).unwrap();
        let keyspace = folder.path().join("keyspaces/1");
        let lists = fs::read_dir(&keyspace).unwrap().map(|entry| entry.unwrap().path());
        let lists: Vec<_> = lists.filter(|path| path.is_file()).collect();
        assert_eq!(lists.len(), 2);
        for path in lists {
            let content = fs::read(&path).unwrap();
            for bit in 0..content.len() * 8 {
                let mut flipped = content.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                let found = check_with(&path, &flipped, &folder);
                assert!(found.is_err(), "bit {bit} of {}", path.display());
            }
            check_with(&path, &content, &folder).unwrap();
        }
    }

    /// Whatever is flipped, the batches that are left are a beginning of those that were, in order.
    #[test]
    fn a_flipped_bit_of_the_newest_journal_cuts_it_or_is_corrupt() {
        let folder = folder();
        let journal = journal_of(&folder);
        let content = fs::read(&journal).unwrap();
        let end = read_journal(&journal, &mut None).unwrap();
        assert!(!end.is_torn);
        let (mut cuts, mut refusals) = (0, 0);
        for bit in (0..end.offset as usize * 8).step_by(7) {
            let mut flipped = content.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            match check_with(&journal, &flipped, &folder) {
                Ok(()) => cuts += usize::from(read_journal(&journal, &mut None).unwrap() < end),
                Err(error) => {
                    assert_eq!(error.kind(), nacre_object::ErrorKind::Corrupt);
                    refusals += 1;
                }
            }
        }
        assert!(cuts > 0 && refusals > 0, "{cuts} cut, {refusals} refused");
    }

    #[test]
    fn a_journal_that_is_not_the_newest_must_be_whole() {
        let folder = folder();
        let journal = journal_of(&folder);
        let content = fs::read(&journal).unwrap();
        let end = read_journal(&journal, &mut None).unwrap();
        fs::write(folder.path().join("1.jnl"), [0; 64]).unwrap();
        check_with(&journal, &content, &folder).unwrap();
        for at in 0..end.offset as usize {
            let mut zeroed = content.clone();
            zeroed[at..].iter_mut().take(512).for_each(|byte| *byte = 0);
            if zeroed[at..].iter().any(|byte| *byte != 0) {
                check_with(&journal, &zeroed, &folder).unwrap_err();
            }
        }
    }
}
