//! The lock of a cluster's folder. A process holds it while it makes, runs or repairs the cluster.

use std::fs::File;
use std::path::Path;

use nacre_object::{Error, Result};
use rustix::fs::{FlockOperation, flock};

/// The file that is locked, within the folder.
const FILE_NAME: &str = "lock";

/// A held lock: the right to make, run or repair the cluster of a folder. Dropping it frees the
/// lock, and so does the end of the process.
#[derive(Debug)]
pub struct FolderLock(#[expect(dead_code, reason = "held for the lock on it")] File);

impl FolderLock {
    /// Takes the lock of a folder.
    ///
    /// # Errors
    /// `Unavailable` if another process has the lock, or its file cannot be opened.
    pub fn take(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE_NAME);
        let mut options = nacre_files::open_options();
        let opened = options.create(true).truncate(false).write(true).open(&path);
        let file = opened.map_err(|error| {
            Error::unavailable(format!("cannot open {}: {error}", path.display()))
                .hint("run the command as the user who runs the cluster")
        })?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            Error::unavailable(format!("the cluster at {} is running already", folder.display()))
                .hint("see it with `nacre status`, or choose another folder with --cluster DIR")
        })?;
        Ok(Self(file))
    }
}
