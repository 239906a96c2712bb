//! Locks the folder of a store, and makes a new store.

use std::fs::File;

use nacre_clock::Random;
use nacre_object::{Error, Result};
use rustix::fs::{FlockOperation, flock};

use super::{JOURNAL, LOCK, TREE};
use crate::errors;
use crate::journal::Position;
use crate::journal::recovery::find_files;
use crate::journal::segment::{BLOCK_BYTES, Salt};
use crate::manifest::Manifest;
use crate::options::Options;
use crate::tables::Tables;

pub(super) fn open_tables(options: &Options) -> Result<Tables> {
    let folder = options.path.join(TREE);
    Tables::open(&folder, options.cache_bytes, options.memtable_bytes)
        .map_err(|error| error.on(folder.display()))
}

pub(super) fn prepare_folder(options: &Options) -> Result<File> {
    let folder = &options.path;
    let failed = |error: std::io::Error| errors::io("making the folder", &error);
    options.disk.create_folder(folder).map_err(failed)?;
    // The tables create their files with the process's umask. So the folder itself must keep other
    // users out, even if it existed before.
    let _ = nacre_files::tighten_folder(folder);
    options.disk.create_folder(&folder.join(JOURNAL)).map_err(failed)?;
    let failed = |error: std::io::Error| errors::io(format!("locking {LOCK}"), &error);
    let lock = nacre_files::open_options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(folder.join(LOCK))
        .map_err(failed)?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(lock),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            Err(Error::unavailable("another process has this store open")
                .hint("stop that process, or choose another folder"))
        }
        Err(error) => Err(failed(error.into())),
    }
}

/// Makes the files of a new store in a directory without a manifest. An earlier process may have
/// crashed while it made them, so some may exist. The manifest is written last, so a directory with
/// a manifest has all the others.
pub(super) fn make_store(options: &Options) -> Result<(Tables, Manifest)> {
    let (folder, journal) = (&options.path, options.path.join(JOURNAL));
    let lost = |what| {
        let text = format!("the manifest is missing, but the folder has {what}");
        Err(Error::corrupt(text).on(folder.display()).hint("restore the folder from a copy"))
    };
    if !find_files(&options.disk, &journal)?.segments.is_empty() {
        return lost("a journal");
    }
    let tables = match open_tables(options) {
        // A crash interrupted the making of the tables. They hold no data, because the journal is
        // made after the manifest.
        Err(_) => {
            std::fs::remove_dir_all(folder.join(TREE))
                .map_err(|error| errors::io("deleting tables that were never used", &error))?;
            open_tables(options)?
        }
        tables => tables?,
    };
    if tables.snapshot().prefix(&[]).next().is_some() {
        return lost("tables");
    }
    tables.sync_all()?;
    let checkpoint = Position { segment: 0, offset: BLOCK_BYTES, group: 1 };
    let sequences = vec![0; options.shards];
    let manifest = Manifest { salt: new_salt(), checkpoint, sequences };
    manifest.store(&options.disk, folder)?;
    Ok((tables, manifest))
}

fn new_salt() -> Salt {
    Salt(Random::from_system().next_u64())
}
