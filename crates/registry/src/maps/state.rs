//! The content of a map, and its changes.

use std::collections::BTreeMap;

use bytes::Bytes;
use nacre_object::{EntityName, MapName};

/// One change of a map's entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Give a key a value.
    Set {
        /// The key.
        key: String,
        /// The value.
        value: Bytes,
    },
    /// Remove a key. It is no error if the key is not there.
    Remove {
        /// The key.
        key: String,
    },
}

impl Change {
    /// Give `key` a value.
    pub fn set(key: impl Into<String>, value: impl Into<Bytes>) -> Self {
        Self::Set { key: key.into(), value: value.into() }
    }

    /// Remove `key`.
    pub fn remove(key: impl Into<String>) -> Self {
        Self::Remove { key: key.into() }
    }

    /// The key.
    pub fn key(&self) -> &str {
        match self {
            Self::Set { key, .. } | Self::Remove { key } => key,
        }
    }

    /// The value, if it sets one.
    pub fn value(&self) -> Option<&Bytes> {
        match self {
            Self::Set { value, .. } => Some(value),
            Self::Remove { .. } => None,
        }
    }

    /// Bytes of key and value.
    pub(crate) fn payload_bytes(&self) -> usize {
        self.key().len() + self.value().map_or(0, Bytes::len)
    }
}

/// A whole map at one epoch. A map that was never committed to has epoch 0 and no entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapState {
    /// The map.
    pub name: MapName,
    /// Counts commits.
    pub epoch: u64,
    /// The entries.
    pub entries: BTreeMap<String, Bytes>,
}

impl MapState {
    /// A map that was never committed to.
    pub fn empty(name: MapName) -> Self {
        Self { name, epoch: 0, entries: BTreeMap::new() }
    }

    /// Brings a copy up to date with an event of its watch.
    pub fn apply(&mut self, event: &MapEvent) {
        match event {
            MapEvent::Whole(state) => self.clone_from(state),
            MapEvent::Epoch(record) => {
                self.epoch = record.epoch;
                record.changes.iter().for_each(|change| self.change(change));
            }
        }
    }

    fn change(&mut self, change: &Change) {
        match change {
            Change::Set { key, value } => {
                self.entries.insert(key.clone(), value.clone());
            }
            Change::Remove { key } => {
                self.entries.remove(key);
            }
        }
    }
}

/// Where a commit came from that a map program triggered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The maps of the chain, beginning with the map of the first commit.
    pub chain: Vec<MapName>,
    /// The trigger's number within the last map of the chain.
    pub sequence: u64,
}

/// One commit of a map, as its history keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpochRecord {
    /// The epoch it began.
    pub epoch: u64,
    /// The changes, as the map's program left them.
    pub changes: Vec<Change>,
    /// The authenticated committer.
    pub author: EntityName,
    /// When: microseconds since 1970, UTC.
    pub at_micros: u64,
    /// Set if another map's program triggered it.
    pub origin: Option<Origin>,
}

/// An item that a watcher of a map gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MapEvent {
    /// The epoch after the last one that the watcher got.
    Epoch(EpochRecord),
    /// The whole map. A watcher gets it instead of missed epochs that the history no longer keeps.
    Whole(MapState),
}

impl MapEvent {
    /// The map's epoch after it.
    pub fn epoch(&self) -> u64 {
        match self {
            Self::Epoch(record) => record.epoch,
            Self::Whole(state) => state.epoch,
        }
    }
}
