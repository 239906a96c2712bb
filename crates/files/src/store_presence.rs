//! Finds out whether a folder holds a store of the embedded engine, without opening or changing it.
//! Code that manages a cluster's folders uses this, so that it need not link the engine.

use std::fs;
use std::io;
use std::path::Path;

/// The file that says which format a store has.
pub const STORE_MANIFEST: &str = "MANIFEST";
/// The folder of a store's journal.
pub const STORE_JOURNAL: &str = "journal";
/// The folder of a store's tables.
pub const STORE_TREE: &str = "tree";

/// Whether a folder holds a store or a part of one. A missing folder does not, and a folder with
/// only other files does not either.
///
/// # Errors
/// Any error of the operating system if the folder cannot be read.
pub fn holds_store(folder: &Path) -> io::Result<bool> {
    let parts = [STORE_MANIFEST, STORE_TREE];
    for part in parts {
        if folder.join(part).try_exists()? {
            return Ok(true);
        }
    }
    // An opening that ended early leaves an empty folder for the journal.
    match fs::read_dir(folder.join(STORE_JOURNAL)) {
        Ok(mut segments) => Ok(segments.next().transpose()?.is_some()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_holds_a_store_as_soon_as_one_part_of_it_is_there() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("store");
        assert!(!holds_store(&folder).unwrap(), "it is missing");
        fs::create_dir_all(folder.join(STORE_JOURNAL)).unwrap();
        fs::write(folder.join("LOCK"), "").unwrap();
        assert!(!holds_store(&folder).unwrap(), "nothing was written yet");
        for part in [STORE_MANIFEST, STORE_TREE, "journal/00000001.segment"] {
            fs::write(folder.join(part), "").unwrap();
            assert!(holds_store(&folder).unwrap(), "{part}");
            fs::remove_file(folder.join(part)).unwrap();
        }
        assert!(!holds_store(&folder).unwrap());
    }
}
