//! Opening a directory: lock it, read the tables, replay the journal, start the threads.

mod folder;
mod recovered;
mod starting;

use std::fs::File;
use std::sync::Arc;
use std::thread::JoinHandle;

use nacre_object::Result;

use crate::core::Core;
use crate::errors;
use crate::manifest::{Loaded, Manifest};
use crate::options::Options;
use crate::scrub::Damage;
use crate::transaction::shards::Shards;
use crate::upkeep::Upkeep;
pub(crate) use nacre_files::{STORE_JOURNAL as JOURNAL, STORE_TREE as TREE};

use folder::{make_store, open_tables, prepare_folder};
use recovered::recover;
use starting::start;

pub(crate) const LOCK: &str = "LOCK";

/// An engine whose threads run.
pub(crate) struct Opened {
    pub core: Arc<Core>,
    pub shards: Shards,
    pub shard_threads: Vec<JoinHandle<()>>,
    pub committer: JoinHandle<()>,
    pub upkeep: JoinHandle<Upkeep>,
    /// Vital files that were damaged or missing, and were written anew from their copies.
    pub mended: Vec<Damage>,
    /// Held for as long as the directory is in use.
    pub lock: File,
}

/// Opens the store in the directory that `options` names.
///
/// # Errors
/// `Unavailable` if another process has it open, `Corrupt` if acknowledged data cannot be read
/// back, `Invalid` for options out of bounds.
pub(crate) fn open(options: &Options) -> Result<Opened> {
    options.check()?;
    let folder = &options.path;
    let lock = prepare_folder(options).map_err(|error| error.on(folder.display()))?;
    let mut mended = Vec::new();
    let (tables, manifest) = match Manifest::load(&options.disk, folder)? {
        Some(Loaded { manifest, damage }) => {
            let tables = open_tables(options)?;
            if let Some(damage) = damage {
                manifest.store(&options.disk, folder)?;
                mended.push(Damage { is_repaired: true, ..damage });
            }
            (tables, manifest)
        }
        None => make_store(options)?,
    };
    if let Some(error) = tables.mended() {
        let place = error.object().unwrap_or(TREE);
        mended.push(Damage { is_repaired: true, ..Damage::of_store(place, error.message()) });
    }
    // Make the manifest durable now: a process that crashed after writing it may not have synced
    // the folder. From here on the engine frees segments that only an older manifest needs.
    options.disk.sync_folder(folder).map_err(|error| errors::io("syncing the folder", &error))?;
    let recovered = recover(options, &tables, &manifest)?;
    let opened = start(options, lock, tables, manifest, recovered)?;
    Ok(Opened { mended, ..opened })
}
