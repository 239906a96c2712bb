//! A target's inputs on disk.

use std::fs;
use std::path::{Path, PathBuf};

/// The inputs of one target.
pub(crate) struct Corpus {
    folder: PathBuf,
}

impl Corpus {
    /// The corpus of a target of the crate in `manifest_dir`.
    pub(crate) fn of(manifest_dir: &str, target: &str) -> Self {
        Self { folder: Path::new(manifest_dir).join("corpus").join(target) }
    }

    /// Every input with its file's name, in the order of names.
    pub(crate) fn read(&self) -> Vec<(String, Vec<u8>)> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return vec![] };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let mut inputs: Vec<_> = paths
            .filter_map(|path| {
                Some((path.file_name()?.to_string_lossy().into_owned(), fs::read(&path).ok()?))
            })
            .collect();
        inputs.sort();
        inputs
    }

    /// Keeps an input; where.
    pub(crate) fn write(&self, kind: &str, input: &[u8]) -> PathBuf {
        let path = self.folder.join(format!("{kind}-{:016x}", name_of(input)));
        fs::create_dir_all(&self.folder).expect("the corpus can be written");
        fs::write(&path, input).expect("the corpus can be written");
        path
    }
}

/// Names an input by what it holds (FNV-1a).
fn name_of(input: &[u8]) -> u64 {
    input.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
