//! A baseline: fjall alone, a log-structured merge tree with a journal. It shows the rate that a
//! store with an index can reach.
//!
//! Fjall gets each group of records as one batch, and makes it durable with one `fdatasync`. Large
//! values are stored apart from the tables, as in the embedded engine. All other settings are
//! fjall's defaults, unless an argument says otherwise.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, PersistMode};
use nacre_object::{Error, Result};

use crate::group_commit::{Record, Sink};

/// The name of this baseline.
pub(crate) const NAME: &str = "a bare tree (fjall), one batch and fdatasync a group";
/// The name of the baseline in which each record also crosses the wire.
pub(crate) const NAME_BEHIND_WIRE: &str = "a bare tree (fjall) behind a bare exchange on the wire";

/// A store of such trees.
#[derive(Clone)]
pub(crate) struct BareTrees(Database);

impl BareTrees {
    /// # Errors
    /// `Unavailable` if the folder cannot be written.
    pub fn create(folder: &Path) -> Result<Self> {
        Database::builder(folder).open().map(Self).map_err(failed)
    }

    /// A tree with what was written to it before.
    ///
    /// # Errors
    /// `Unavailable` if the disk fails.
    pub fn tree(&self, name: &str) -> Result<BareTree> {
        let options = || {
            KeyspaceCreateOptions::default()
                .with_kv_separation(Some(KvSeparationOptions::default()))
        };
        let tree = self.0.keyspace(name, options).map_err(failed)?;
        Ok(BareTree { database: self.0.clone(), tree })
    }
}

/// One of them.
pub(crate) struct BareTree {
    database: Database,
    tree: Keyspace,
}

impl Sink for BareTree {
    fn commit(&mut self, group: &[Record]) -> Result<()> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        for record in group {
            batch.insert(&self.tree, record.key.to_be_bytes(), &record.value[..]);
        }
        batch.commit().map_err(failed)
    }
}

fn failed(error: fjall::Error) -> Error {
    Error::unavailable(format!("the baseline, fjall alone, failed: {error}"))
}
