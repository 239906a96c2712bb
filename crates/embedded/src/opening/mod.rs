//! Opening a directory: lock it, read the tables, replay the journal, start the threads.

mod folder;
mod presence;
mod recount;
mod recovered;
mod starting;

use std::fs::File;
use std::sync::Arc;
use std::thread::JoinHandle;

use nacre_object::Result;

use crate::core::Core;
use crate::errors;
use crate::manifest::Manifest;
use crate::options::Options;
use crate::shards::Shards;
use crate::upkeep::Upkeep;
use folder::{make_store, open_tables, prepare_folder, upgrade};
pub use presence::holds_store;
pub(crate) use recount::recount;
use recovered::recover;
use starting::start;

pub(crate) const LOCK: &str = "LOCK";
pub(crate) const JOURNAL: &str = "journal";
/// The tables.
pub(crate) const TREE: &str = "tree";
/// The tables of format 1.
const TABLES: &str = "tables";

/// An engine whose threads run.
pub(crate) struct Opened {
    pub core: Arc<Core>,
    pub shards: Shards,
    pub shard_threads: Vec<JoinHandle<()>>,
    pub committer: JoinHandle<()>,
    pub upkeep: JoinHandle<Upkeep>,
    /// Held for as long as the directory is in use.
    pub lock: File,
}

/// Opens the directory of `options`.
///
/// # Errors
/// `Unavailable` if another process has it open, `Corrupt` if what was acknowledged cannot be read
/// back, `Invalid` for options that cannot be.
pub(crate) fn open(options: &Options) -> Result<Opened> {
    options.check()?;
    let folder = &options.path;
    let lock = prepare_folder(options).map_err(|error| error.on(folder.display()))?;
    let (tables, manifest) = match Manifest::load(&options.disk, folder)? {
        Some(manifest) if manifest.format < Manifest::FORMAT => upgrade(options, &manifest)?,
        Some(manifest) => (open_tables(options)?, manifest),
        None => make_store(options)?,
    };
    // Who wrote the manifest may not have come to this, and what it does without is given away from now on.
    options.disk.sync_folder(folder).map_err(|error| errors::io("syncing the folder", &error))?;
    let recovered = recover(options, &tables, &manifest)?;
    start(options, lock, tables, manifest, recovered)
}
