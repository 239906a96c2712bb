//! `target.json`: the identity of a storage target, in the target's folder.
//!
//! ```json
//! {"format": 1, "cluster": "5b1c…", "target": "storage.2", "id": "90af…", "has_data": true}
//! ```
//!
//! `has_data` is false until the target's engine has made its store there. `target.json.copy` has
//! the same content. A node reads it if `target.json` is missing or damaged.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::unique_id::UniqueId;

/// The file's name within the target's folder.
pub(super) const FILE_NAME: &str = "target.json";
const COPY_NAME: &str = "target.json.copy";
/// The format this release reads and writes.
const FORMAT: u32 = 1;

/// Which target of which cluster a folder belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TargetIdentity {
    /// The cluster's id.
    pub cluster: UniqueId,
    /// The target's name.
    pub target: String,
    /// The target's id. It changes when an operator gives up the target's data.
    pub id: UniqueId,
}

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TargetRecord {
    format: u32,
    /// Whose folder it is.
    #[serde(flatten)]
    pub identity: TargetIdentity,
    /// Whether a store was made in the folder.
    pub has_data: bool,
}

/// What a folder says of its identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing: the folder is missing, or has no `target.json`.
    Nothing,
    /// The identity.
    Record(TargetRecord),
    /// Something that cannot be read, and why.
    Unreadable(String),
}

impl TargetRecord {
    /// A record of the present format.
    pub fn new(identity: TargetIdentity, has_data: bool) -> Self {
        Self { format: FORMAT, identity, has_data }
    }

    /// Reads the record of a folder. Reads its copy if the record itself cannot be read.
    pub fn find(folder: &Path) -> Found {
        let found = Self::read(&folder.join(FILE_NAME));
        match Self::read(&folder.join(COPY_NAME)) {
            copy @ Found::Record(_) if !matches!(found, Found::Record(_)) => copy,
            _ => found,
        }
    }

    fn read(path: &Path) -> Found {
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Found::Nothing,
            Err(error) => return Found::Unreadable(error.to_string()),
        };
        match serde_json::from_slice::<Self>(&text) {
            Ok(record) if record.format == FORMAT => Found::Record(record),
            Ok(record) => Found::Unreadable(format!(
                "format {} is unknown, this release reads {FORMAT}",
                record.format
            )),
            Err(error) => Found::Unreadable(error.to_string()),
        }
    }

    /// Returns which of the two files of the record are damaged, each with the reason.
    pub fn damages(folder: &Path) -> Vec<(&'static str, String)> {
        let files = [FILE_NAME, COPY_NAME].map(|name| (name, Self::read(&folder.join(name))));
        // A store that belongs to no cluster has neither file.
        if files.iter().all(|(_, found)| *found == Found::Nothing) {
            return Vec::new();
        }
        let wrong = |(name, found)| match found {
            Found::Record(_) => None,
            Found::Nothing => Some((name, "it is missing".to_owned())),
            Found::Unreadable(reason) => Some((name, reason)),
        };
        files.into_iter().filter_map(wrong).collect()
    }

    /// Stores the record durably in a folder, as `target.json` and as its copy. Makes the folder if
    /// it is missing.
    ///
    /// # Errors
    /// Any error of the operating system.
    pub fn store(&self, folder: &Path) -> io::Result<()> {
        nacre_files::create_folder(folder)?;
        let text = self.to_text()?;
        nacre_files::replace(&folder.join(FILE_NAME), text.as_bytes())?;
        nacre_files::replace(&folder.join(COPY_NAME), text.as_bytes())
    }

    /// Stores the record again if `target.json` or its copy is missing, damaged or different.
    ///
    /// # Errors
    /// Any error of the operating system.
    pub fn mend(&self, folder: &Path) -> io::Result<()> {
        let is_whole =
            |name| matches!(Self::read(&folder.join(name)), Found::Record(found) if found == *self);
        if is_whole(FILE_NAME) && is_whole(COPY_NAME) {
            return Ok(());
        }
        self.store(folder)
    }

    /// The content of the file.
    ///
    /// # Errors
    /// None in practice, because a record is always valid JSON.
    pub fn to_text(&self) -> io::Result<String> {
        serde_json::to_string(self).map_err(io::Error::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of the first release with identities. Never change it; add later formats after it.
    const SAMPLE_FORMAT_1: &str = r#"{"format":1,"cluster":"000102030405060708090a0b0c0d0e0f",
        "target":"storage.2","id":"f0e0d0c0b0a090807060504030201000","has_data":true}"#;

    fn found(text: &str) -> Found {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE_NAME), text).unwrap();
        TargetRecord::find(folder.path())
    }

    #[test]
    fn each_file_that_is_damaged_or_missing_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let wrong = || -> Vec<_> {
            TargetRecord::damages(folder.path()).into_iter().map(|(name, _)| name).collect()
        };
        assert!(wrong().is_empty(), "a store of no cluster");
        let Found::Record(record) = found(SAMPLE_FORMAT_1) else { panic!("the sample reads") };
        record.store(folder.path()).unwrap();
        assert!(wrong().is_empty());
        fs::remove_file(folder.path().join(FILE_NAME)).unwrap();
        assert_eq!(wrong(), [FILE_NAME]);
        fs::write(folder.path().join(COPY_NAME), "{").unwrap();
        assert_eq!(wrong(), [FILE_NAME, COPY_NAME]);
    }

    #[test]
    fn the_sample_of_format_1_can_be_read() {
        let Found::Record(record) = found(SAMPLE_FORMAT_1) else { panic!("it does not read") };
        assert_eq!(record.identity.target, "storage.2");
        assert_eq!(record.identity.cluster.to_string(), "000102030405060708090a0b0c0d0e0f");
        assert_eq!(record.identity.id.to_string(), "f0e0d0c0b0a090807060504030201000");
        assert!(record.has_data);
    }

    #[test]
    fn a_record_is_read_from_its_copy_if_the_file_is_damaged_or_missing() {
        let folder = tempfile::tempdir().unwrap();
        let (cluster, id) = (UniqueId::fresh(), UniqueId::fresh());
        let identity = TargetIdentity { cluster, target: "storage.0".into(), id };
        let record = TargetRecord::new(identity, true);
        record.store(folder.path()).unwrap();
        for name in [FILE_NAME, COPY_NAME] {
            let file = folder.path().join(name);
            fs::write(&file, "{").unwrap();
            assert_eq!(TargetRecord::find(folder.path()), Found::Record(record.clone()), "{name}");
            fs::remove_file(&file).unwrap();
            assert_eq!(TargetRecord::find(folder.path()), Found::Record(record.clone()), "{name}");
            record.mend(folder.path()).unwrap();
            assert!(file.exists());
        }
    }

    #[test]
    fn a_record_can_be_read_back_and_anything_else_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(TargetRecord::find(folder.path()), Found::Nothing);
        let (cluster, id) = (UniqueId::fresh(), UniqueId::fresh());
        let identity = TargetIdentity { cluster, target: "storage.0".into(), id };
        let record = TargetRecord::new(identity, false);
        record.store(&folder.path().join("new")).unwrap();
        assert_eq!(TargetRecord::find(&folder.path().join("new")), Found::Record(record));
        let later = SAMPLE_FORMAT_1.replace("\"format\":1", "\"format\":2");
        for wrong in ["", "{}", "[1]", &later, &SAMPLE_FORMAT_1.replace("f0e0", "")] {
            assert!(matches!(found(wrong), Found::Unreadable(_)), "{wrong}");
        }
    }
}
