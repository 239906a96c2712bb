//! A baseline for durable writes: one preallocated file without any format. Each group of records
//! is one write and one sync, so no store can be much faster.
//!
//! The baseline overwrites the same blocks of its file again and again. A real log writes to new
//! blocks, which the file system must mark as written at each sync.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nacre_object::{Error, Result};
use rustix::fs::{FallocateFlags, fallocate};

use crate::group_commit::{Record, Sink, Writers};
use crate::load::Outcome;
use crate::wire::Exchange;

/// The name of this baseline.
pub(crate) const NAME: &str = "raw file, one fdatasync a group";
/// The name of the baseline in which each record also crosses the wire. A store that is reached
/// over this wire can be faster only if it sends several records in one message.
pub(crate) const NAME_BEHIND_WIRE: &str = "raw file behind a bare exchange on the wire";
/// The same where each record is kept.
pub(crate) const NAME_OF_LOG: &str = "raw file that keeps all, behind a bare exchange";
/// The length of the file. When it is full, writing starts again at the beginning, or the file
/// grows by this length.
const FILE_BYTES: usize = 64 * 1024 * 1024;
/// How many bytes are written at a time when the file is created.
const CHUNK_BYTES: usize = 1024 * 1024;
/// The file's name in its folder.
const FILE_NAME: &str = "raw";

/// Says what happens to records when the file is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtItsEnd {
    StartsOver,
    Grows,
}

/// Measures how fast records of `size` bytes become durable. `writers` tasks write, and each waits
/// for its record.
///
/// # Errors
/// `Unavailable` if the folder cannot be written or the disk fails.
pub(crate) async fn run(
    folder: &Path,
    writers: usize,
    size: usize,
    span: Duration,
) -> Result<Outcome> {
    behind(folder, AtItsEnd::StartsOver, &[], writers, size, span).await
}

/// Measures the same as [`run`]. In addition, before each record the writer makes the `exchanges`
/// over the wire, and waits for each answer.
///
/// # Errors
/// As [`run`] and [`Exchange::once`].
pub(crate) async fn behind(
    folder: &Path,
    at_its_end: AtItsEnd,
    exchanges: &[Exchange],
    writers: usize,
    size: usize,
    span: Duration,
) -> Result<Outcome> {
    let file = RawFile::create(folder.join(FILE_NAME), at_its_end).map_err(failed)?;
    // It has no keys.
    Writers { count: writers, size, keys: 1, exchanges }.run(file, span).await
}

/// The file. It is deleted when this value is dropped.
struct RawFile {
    path: PathBuf,
    file: File,
    at_its_end: AtItsEnd,
    offset: usize,
    end: usize,
    /// Of the group that is written.
    bytes: Vec<u8>,
}

impl RawFile {
    fn create(path: PathBuf, at_its_end: AtItsEnd) -> io::Result<Self> {
        let (file, end) = match at_its_end {
            AtItsEnd::StartsOver => (laid_out(&path)?, FILE_BYTES),
            AtItsEnd::Grows => (File::create(&path)?, 0),
        };
        Ok(Self { path, file, at_its_end, offset: 0, end, bytes: vec![] })
    }

    fn write(&mut self, group: &[Record]) -> io::Result<()> {
        self.bytes.clear();
        group.iter().for_each(|record| self.bytes.extend_from_slice(&record.value));
        if self.offset + self.bytes.len() > self.end {
            match self.at_its_end {
                AtItsEnd::StartsOver => self.offset = 0,
                AtItsEnd::Grows => {
                    let (end, more) = (self.end as u64, FILE_BYTES as u64);
                    fallocate(&self.file, FallocateFlags::empty(), end, more)?;
                    self.end += FILE_BYTES;
                }
            }
        }
        self.file.write_all_at(&self.bytes, self.offset as u64)?;
        self.file.sync_data()?;
        self.offset += self.bytes.len();
        Ok(())
    }
}

impl Sink for RawFile {
    fn commit(&mut self, group: &[Record]) -> Result<()> {
        self.write(group).map_err(failed)
    }
}

impl Drop for RawFile {
    fn drop(&mut self) {
        // If this fails, the file is removed with its scratch folder.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Creates a file whose blocks have all been written once. Later writes then change no metadata of
/// the file, as in a log that reuses its space.
fn laid_out(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().create(true).truncate(true).write(true).open(path)?;
    for offset in (0..FILE_BYTES).step_by(CHUNK_BYTES) {
        file.write_all_at(&vec![0; CHUNK_BYTES], offset as u64)?;
    }
    file.sync_all()?;
    Ok(file)
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::unavailable(format!("the baseline, a raw file, cannot be written: {error}"))
}
