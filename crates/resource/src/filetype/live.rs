//! `LiveFileTypes`: the file types that are live on a node.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use nacre_object::{Error, ProgramName, Result};

use super::FileType;

/// The file types that are live on a node, by name. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct LiveFileTypes(Arc<RwLock<BTreeMap<ProgramName, Arc<FileType>>>>);

impl LiveFileTypes {
    /// No file types yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The live version of a file type.
    ///
    /// # Errors
    /// `Unavailable` if none is live here.
    pub fn get(&self, name: &ProgramName) -> Result<Arc<FileType>> {
        let types = self.0.read().unwrap_or_else(PoisonError::into_inner);
        types.get(name).cloned().ok_or_else(|| {
            Error::unavailable(format!("filetype/{name} is not live on this node"))
                .hint(format!("see `nacre program status filetype/{name}`"))
        })
    }

    /// Makes a file type live, in place of another version.
    pub(crate) fn insert(&self, name: ProgramName, compiled: FileType) {
        let mut types = self.0.write().unwrap_or_else(PoisonError::into_inner);
        types.insert(name, Arc::new(compiled));
    }

    /// Drops a file type. Whoever is running it finishes.
    pub(crate) fn remove(&self, name: &ProgramName) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}
