//! `metrics.json`: the file that tells Prometheus the addresses of the metrics of a cluster's
//! processes.
//!
//! The format is that of Prometheus' `file_sd_configs`. Prometheus reads the file again whenever it
//! changes, because a restarted node may have another port.
//!
//! ```json
//! [{"targets": ["127.0.0.1:41301"], "labels": {"node": "storage.0"}}]
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use nacre_object::{Error, Result};
use serde_json::json;

/// The file's name within the cluster's folder.
const FILE_NAME: &str = "metrics.json";

/// The file and its contents.
#[derive(Debug)]
pub struct ScrapeTargets {
    path: PathBuf,
    /// The contents of the file: the address of each process.
    addresses: Mutex<BTreeMap<String, SocketAddr>>,
}

impl ScrapeTargets {
    /// Creates an empty list of addresses for the cluster in a folder. The first call of `set`
    /// writes the file.
    pub fn new(folder: &Path) -> Self {
        Self { path: folder.join(FILE_NAME), addresses: Mutex::default() }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Says where a process' metrics are now.
    ///
    /// # Errors
    /// `Unavailable` if the file cannot be written.
    pub fn set(&self, node: &str, address: SocketAddr) -> Result<()> {
        // The lock is held while writing, so that the file has the newest state.
        let mut written = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let mut addresses = written.clone();
        if addresses.insert(node.to_owned(), address) == Some(address) {
            return Ok(());
        }
        let groups = addresses
            .iter()
            .map(|(node, at)| json!({ "targets": [at.to_string()], "labels": { "node": node } }));
        let text = json!(groups.collect::<Vec<_>>()).to_string();
        let unwritable = |error| {
            Error::unavailable(format!("cannot write {}: {error}", self.path.display()))
                .hint("check the permissions of the folder and the free space of the disk")
        };
        nacre_files::replace(&self.path, text.as_bytes()).map_err(unwritable)?;
        *written = addresses;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_file_for_prometheus_holds_the_present_address_of_each_process() {
        let folder = tempfile::tempdir().unwrap();
        let targets = ScrapeTargets::new(folder.path());
        targets.set("b", "127.0.0.1:1".parse().unwrap()).unwrap();
        targets.set("a", "127.0.0.1:2".parse().unwrap()).unwrap();
        targets.set("b", "127.0.0.1:3".parse().unwrap()).unwrap();
        let read: serde_json::Value =
            serde_json::from_slice(&fs::read(targets.path()).unwrap()).unwrap();
        let expected = json!([
            { "targets": ["127.0.0.1:2"], "labels": { "node": "a" } },
            { "targets": ["127.0.0.1:3"], "labels": { "node": "b" } },
        ]);
        assert_eq!(read, expected);
    }

    #[test]
    fn an_address_that_could_not_be_written_is_written_when_it_is_set_again() {
        let folder = tempfile::tempdir().unwrap();
        let targets = ScrapeTargets::new(folder.path());
        let say = || targets.set("a", "127.0.0.1:1".parse().unwrap());
        let in_the_way = targets.path().join("folder");
        fs::create_dir_all(&in_the_way).unwrap();
        say().unwrap_err();
        fs::remove_dir_all(targets.path()).unwrap();
        say().unwrap();
        assert!(fs::read_to_string(targets.path()).unwrap().contains("127.0.0.1:1"));
    }
}
