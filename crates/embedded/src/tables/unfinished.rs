//! Deletes table files that a flush or merge left behind when the disk became full.
//!
//! The tree gives table files rising numbers and never uses a number twice. So a file that no
//! version of the tree ever named is left from a failed flush or merge. Opening the tree deletes
//! such files too.
//!
//! **Invariants:**
//! - No file is deleted while a flush or merge runs, because it may be writing the file.
//! - No file is deleted if the list of files on disk differs from the list in memory, because the
//!   list on disk may name the file.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use lsm_tree::{AbstractTree, AnyTree};
use nacre_object::{Error, Result};

use super::FILES_FOLDER;
use super::lists::{current_list, reading};

/// The numbers of table files that a version of the tree named.
#[derive(Debug, Default)]
pub(super) struct NamedFiles(HashSet<u64>);

impl NamedFiles {
    /// Remembers the files of the tree's present version.
    pub fn note(&mut self, tree: &AnyTree) {
        self.0.extend(tree.current_version().iter_tables().map(|table| table.id()));
    }

    /// Deletes the table files in the tree's folder that no version of the tree ever named.
    ///
    /// # Errors
    /// `Corrupt` if the list on disk differs from the list in memory, or any error of the disk.
    pub fn delete_others(&mut self, tree: &AnyTree, folder: &Path) -> Result<()> {
        let listed = current_list(folder)?.map(|list| list.number);
        if listed != Some(tree.current_version().id()) {
            return Err(Error::corrupt(
                "the list of table files on disk differs from the list in memory",
            )
            .on(folder.display())
            .hint("restart the node, then look for damage with `nacre scrub`"));
        }
        let folder = folder.join(FILES_FOLDER);
        let failed = |error: &std::io::Error| reading(&folder, error);
        let mut present = HashSet::new();
        for entry in fs::read_dir(&folder).map_err(|error| failed(&error))? {
            let entry = entry.map_err(|error| failed(&error))?;
            let Some(number) = number_of(&entry.file_name()) else { continue };
            if self.0.contains(&number) {
                present.insert(number);
            } else {
                fs::remove_file(entry.path()).map_err(|error| failed(&error))?;
            }
        }
        self.0 = present;
        Ok(())
    }
}

fn number_of(name: &std::ffi::OsStr) -> Option<u64> {
    name.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use nacre_object::ErrorKind;
    use tempfile::TempDir;

    use super::*;
    use crate::entry::key::{self, NodeId};
    use crate::entry::value::Value;
    use crate::tables::Tables;

    /// Tables with one file, and a file that nothing names.
    fn tables_with_a_leftover(folder: &Path) -> (Tables, NamedFiles) {
        let tables = Tables::open(folder, 1 << 20, 1 << 20).unwrap();
        let mut batch = tables.batch(1);
        batch.put(key::map_entry(NodeId::new(0, 1), b"a"), &Value::Inline("value".into()));
        batch.commit();
        tables.seal();
        tables.write_sealed().unwrap();
        let mut named = NamedFiles::default();
        named.note(&tables.shared.tree);
        fs::write(folder.join(FILES_FOLDER).join("999"), "half of a table").unwrap();
        (tables, named)
    }

    fn files(folder: &Path) -> usize {
        fs::read_dir(folder.join(FILES_FOLDER)).unwrap().count()
    }

    #[test]
    fn only_files_that_no_version_named_are_deleted() {
        let folder = TempDir::new().unwrap();
        let (tables, mut named) = tables_with_a_leftover(folder.path());
        assert_eq!(files(folder.path()), 2);
        named.delete_others(&tables.shared.tree, folder.path()).unwrap();
        assert_eq!(files(folder.path()), 1);
        assert!(tables.snapshot().prefix(&[]).all(|entry| entry.is_ok()));
    }

    #[test]
    fn no_file_is_deleted_if_the_list_on_disk_differs_from_memory() {
        let folder = TempDir::new().unwrap();
        let (tables, mut named) = tables_with_a_leftover(folder.path());
        let current = folder.path().join("current");
        let mut bytes = fs::read(&current).unwrap();
        bytes[0] += 1;
        fs::write(&current, bytes).unwrap();
        let error = named.delete_others(&tables.shared.tree, folder.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert_eq!(files(folder.path()), 2);
    }
}
