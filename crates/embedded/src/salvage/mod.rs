//! Saves what can be read of a damaged storage folder into a new folder.
//!
//! `nacre salvage` and `nacre scrub --offline` call this. The damaged folder is only read. The new
//! folder gets:
//!
//! 1. the segments of the journal, because payloads are kept in them;
//! 2. new tables with every entry that can be read ([`tables`]);
//! 3. the changes in journal records that the tables lack ([`records`]);
//! 4. a manifest whose position is after all of these records, so that nothing is replayed;
//! 5. other small files of the folder, such as the target's identity.
//!
//! The new folder opens as any other store. A scrub of it then names the objects that lost
//! something.

mod linked_disk;
mod progress;
mod records;
mod recount;
mod tables;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nacre_object::{Error, ErrorKind, Result};
use rustix::fs::{FlockOperation, flock};

use crate::disk::{Disk, RealDisk};
use crate::errors;
use crate::journal::Position;
use crate::journal::recovery::find_files;
use crate::journal::segment::{BLOCK_BYTES, Segment, file_name};
use crate::manifest::{Loaded, Manifest};
use crate::opening::{JOURNAL, LOCK, TREE};
use crate::scrub::Damage;
use crate::tables::Tables;
pub use linked_disk::LinkedDisk;
use progress::Progresses;
use records::Records;
use recount::recount;

/// Memory for the blocks and entries of the new tables.
const TABLE_MEMORY_BYTES: u64 = 32 * 1024 * 1024;
/// Files beside the store are copied up to this size. A storage target has no larger ones.
const MAX_OTHER_FILE_BYTES: u64 = 1024 * 1024;

/// How the new folder comes to the journal's segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentFiles {
    /// They are copied: the new folder stands alone.
    Copied,
    /// The segments are links into the damaged folder. The new store must be opened on a
    /// [`LinkedDisk`].
    Linked,
}

/// What was saved, and what was not.
#[derive(Debug, Clone, Default)]
pub struct Salvaged {
    /// The damage found in the old folder. A scrub of the new folder names the objects that lost
    /// data by this damage.
    pub damages: Vec<Damage>,
    /// Files of tables that could be read, at least in part.
    pub table_files: u64,
    /// Entries of tables that were saved.
    pub entries: u64,
    /// Records of the journal that the tables lacked.
    pub records: u64,
}

/// Saves everything readable in the storage folder `from` into the new folder `to`.
///
/// # Errors
/// - `Unavailable` while a node has `from` open.
/// - `Exists` if `to` is not empty.
/// - `NotFound` if `from` is no storage folder.
/// - `Corrupt` if no file in `from` says how to read its journal.
/// - Any error of the disk on which `to` lies.
pub fn salvage(from: &Path, to: &Path, files: SegmentFiles) -> Result<Salvaged> {
    let _lock = lock(from)?;
    make_folder(from, to)?;
    let mut salvaged = Salvaged::default();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let manifest = read_manifest(&disk, from, &mut salvaged.damages)?;
    let segments = open_segments(&disk, &from.join(JOURNAL), &mut salvaged.damages)?;
    let salt = match &manifest {
        Some(manifest) => manifest.salt,
        None => records::salt_of(&segments).ok_or_else(nothing_to_go_by)?,
    };
    take_segments(&segments, from, to, files, &mut salvaged.damages)?;
    let is_whole = tables::save(&from.join(TREE), &to.join(TREE), &mut salvaged)?;
    let tables = Tables::open(&to.join(TREE), TABLE_MEMORY_BYTES, TABLE_MEMORY_BYTES)?;
    let mut progresses = Progresses::load(&tables.snapshot(), manifest.as_ref())?;
    let mut records = Records::new(&tables, to.join(JOURNAL), is_whole, &mut progresses);
    let last_group = records.save(&segments, salt, &mut salvaged)?;
    let sequences = progresses.store(&tables)?;
    recount(&tables)?;
    tables.seal();
    tables.write_sealed()?;
    tables.sync_all()?;
    let next_segment = segments.last().map_or(0, |last| last.id + 1);
    let checkpoint = Position { segment: next_segment, offset: BLOCK_BYTES, group: last_group + 1 };
    take_other_files(from, to)?;
    Manifest { salt, checkpoint, sequences }.store(&disk, to)?;
    Ok(salvaged)
}

fn nothing_to_go_by() -> Error {
    Error::corrupt("neither the manifest nor any group of the journal can be read")
        .hint("restore the folder from a copy")
}

/// Keeps nodes from opening the folder meanwhile.
fn lock(folder: &Path) -> Result<Option<File>> {
    if !folder.join(JOURNAL).is_dir() && !folder.join(TREE).is_dir() {
        return Err(Error::not_found("this is not a storage folder")
            .on(folder.display())
            .hint("name the folder of one storage target, such as `nacre-data/storage.0`"));
    }
    let file = match File::open(folder.join(LOCK)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|error| errors::io(format!("opening {LOCK}"), &error))?,
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let error = Error::unavailable("a node has this folder open").on(folder.display());
            Err(error.hint("stop the cluster first; `nacre scrub` examines one that runs"))
        }
        Err(error) => Err(errors::io(format!("locking {LOCK}"), &error.into())),
    }
}

fn make_folder(from: &Path, to: &Path) -> Result<()> {
    let failed = |error: io::Error| errors::io(format!("making {}", to.display()), &error);
    if to.starts_with(from) {
        return Err(Error::invalid("the new folder is inside the damaged one").on(to.display()));
    }
    let is_used = to.exists() && fs::read_dir(to).map_err(failed)?.next().is_some();
    if is_used {
        return Err(Error::exists("the new folder is not empty")
            .on(to.display())
            .hint("name a new folder"));
    }
    fs::create_dir_all(to.join(JOURNAL)).map_err(failed)
}

fn read_manifest(
    disk: &Arc<dyn Disk>,
    folder: &Path,
    damages: &mut Vec<Damage>,
) -> Result<Option<Manifest>> {
    match Manifest::load(disk, folder) {
        Ok(Some(Loaded { manifest, damage })) => {
            damages.extend(damage);
            Ok(Some(manifest))
        }
        Ok(None) => {
            damages.push(Damage::of_store("MANIFEST", "the file is missing"));
            Ok(None)
        }
        Err(error) if error.kind() == ErrorKind::Unsupported => Err(error),
        Err(error) => {
            damages.push(Damage::of_store("MANIFEST", error.message()));
            Ok(None)
        }
    }
}

/// The segments that can be opened, oldest first.
fn open_segments(
    disk: &Arc<dyn Disk>,
    folder: &Path,
    damages: &mut Vec<Damage>,
) -> Result<Vec<Segment>> {
    if !folder.is_dir() {
        damages.push(Damage::of_store("journal", "the folder is missing"));
        return Ok(Vec::new());
    }
    let mut segments = Vec::new();
    for found in find_files(disk, folder)?.segments {
        let name = file_name(found.id);
        match linked_disk::open_read_only(&folder.join(&name)) {
            Ok(file) => segments.push(Segment { id: found.id, file, capacity: found.capacity }),
            Err(error) => damages.push(Damage::of_store(name, error.to_string())),
        }
    }
    Ok(segments)
}

fn take_segments(
    segments: &[Segment],
    from: &Path,
    to: &Path,
    files: SegmentFiles,
    damages: &mut Vec<Damage>,
) -> Result<()> {
    let from = fs::canonicalize(from).map_err(|error| errors::io("finding the folder", &error))?;
    for segment in segments {
        let name = file_name(segment.id);
        let (source, target) = (from.join(JOURNAL).join(&name), to.join(JOURNAL).join(&name));
        let taken = match files {
            SegmentFiles::Copied => copy(&source, &target),
            SegmentFiles::Linked => std::os::unix::fs::symlink(&source, &target),
        };
        match taken.map_err(|error| errors::io(format!("copying {name}"), &error)) {
            Err(error) if error.kind() == ErrorKind::Exhausted => return Err(error),
            Err(error) => damages.push(Damage::of_store(name, error.message())),
            Ok(()) => {}
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    File::open(to)?.sync_all()
}

/// Copies the small files that lie beside the store, such as a target's identity.
fn take_other_files(from: &Path, to: &Path) -> Result<()> {
    let failed = |error: io::Error| errors::io("copying small files", &error);
    for entry in fs::read_dir(from).map_err(failed)? {
        let path: PathBuf = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default();
        let is_ours = name == LOCK || name.to_string_lossy().starts_with("MANIFEST");
        let is_small = fs::metadata(&path).is_ok_and(|file| file.len() <= MAX_OTHER_FILE_BYTES);
        if path.is_file() && !is_ours && is_small {
            copy(&path, &to.join(name)).map_err(failed)?;
        }
    }
    Ok(())
}
