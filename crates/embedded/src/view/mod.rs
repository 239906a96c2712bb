//! A transaction on one object: what ops and methods read and write through [`ObjectView`] and
//! [`TransactionView`].
//!
//! The head is read once and kept; everything else is read and written through [`Layers`]. A
//! transaction that succeeds returns its changes as a [`ChangeSet`]; one that is dropped changes
//! nothing. Read-only transactions, including those at a snapshot, use the same type with writes
//! denied.
//!
//! | file | holds |
//! | --- | --- |
//! | `stream` | the byte stream: extents and the tail of small appends |
//! | `map` | the map and its header |
//! | `attributes` | attributes |
//! | `nodes` | dropping and copying whole nodes |
//! | `snapshots` | snapshots, rollback, clone |

mod attributes;
mod map;
mod nodes;
mod snapshots;
mod stream;

use bytes::Bytes;
use nacre_object::{
    Error, MapEntry, MapRange, ObjectId, ObjectName, ObjectStat, ObjectView, Result, SnapshotName,
    TransactionView, bounds,
};

use crate::entry::head::{Content, Head};
use crate::entry::key::{self, Key, NodeId};
use crate::entry::layers::Layers;
use crate::entry::value::{Piece, Value};
use crate::journal::segment_table::SegmentTable;
use crate::transaction::change_set::{ChangeSet, Release};
use nodes::CopyBudget;

/// Whether a transaction may write, and the numbers it gets if it does.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mode {
    /// Writing is denied.
    Read,
    Write {
        shard: u16,
        /// The sequence its record will have, which becomes the object's version.
        sequence: u64,
        now_micros: u64,
        /// The first node number that the shard has not used.
        next_node: u64,
    },
}

/// A transaction on one object.
pub(crate) struct Transaction<'a> {
    layers: Layers<'a>,
    segments: &'a SegmentTable,
    object: &'a ObjectId,
    mode: Mode,
    /// The object as the transaction has it; `None` while it does not exist.
    content: Option<Content>,
    /// The object's committed version; 0 if it did not exist.
    version: u64,
    modified_micros: u64,
    existed: bool,
    is_changed: bool,
    releases: Vec<Release>,
    written_bytes: usize,
    /// Extents of the stream that were overwritten or cut off.
    cleared_extents: usize,
    copied: CopyBudget,
}

/// The result of a transaction.
pub(crate) struct Outcome {
    /// Whether the object was changed, and so gets a new version.
    pub is_changed: bool,
    /// The version after it; 0 if the object does not exist.
    pub version: u64,
    pub changes: ChangeSet,
    pub next_node: u64,
    pub saw_unsynced: bool,
    /// Whether there was no such object before.
    pub is_created: bool,
}

impl<'a> Transaction<'a> {
    /// Begins on the object as it is.
    ///
    /// # Errors
    /// `Corrupt` if its head is damaged.
    pub fn begin(
        layers: Layers<'a>,
        segments: &'a SegmentTable,
        object: &'a ObjectId,
        mode: Mode,
    ) -> Result<Self> {
        let head = read_head(&layers, &key::head(object))?;
        Ok(Self::on(layers, segments, object, mode, head))
    }

    /// Begins a read-only transaction on the object as it was at a snapshot.
    ///
    /// # Errors
    /// `NotFound` if there is no such snapshot, `Corrupt` if the snapshot's head is damaged.
    pub fn at_snapshot(
        layers: Layers<'a>,
        segments: &'a SegmentTable,
        object: &'a ObjectId,
        snapshot: &SnapshotName,
    ) -> Result<Self> {
        let head = read_head(&layers, &key::snapshot(object, snapshot))?
            .ok_or_else(|| no_snapshot(snapshot))?;
        Ok(Self::on(layers, segments, object, Mode::Read, Some(head)))
    }

    fn on(
        layers: Layers<'a>,
        segments: &'a SegmentTable,
        object: &'a ObjectId,
        mode: Mode,
        head: Option<Head>,
    ) -> Self {
        let existed = head.is_some();
        let head = head.unwrap_or_default();
        Self {
            layers,
            segments,
            object,
            mode,
            content: existed.then_some(head.content),
            version: head.version,
            modified_micros: head.modified_micros,
            existed,
            is_changed: false,
            releases: Vec::new(),
            written_bytes: 0,
            cleared_extents: 0,
            copied: CopyBudget::default(),
        }
    }

    /// Ends a successful transaction. Returns its changes, which are to be committed.
    pub fn finish(mut self) -> Outcome {
        let exists = self.content.is_some();
        let mut version = if exists { self.version } else { 0 };
        let mut next = 0;
        if let Mode::Write { sequence, now_micros, next_node, .. } = self.mode {
            next = next_node;
            if self.is_changed {
                let head_key = key::head(self.object);
                match self.content.take() {
                    Some(content) => {
                        version = sequence;
                        let head = Head { version, modified_micros: now_micros, content };
                        self.layers.put(head_key, Value::Inline(head.encode()));
                    }
                    None if self.existed => self.layers.delete(head_key),
                    None => {}
                }
            }
        }
        Outcome {
            is_changed: self.is_changed,
            is_created: exists && !self.existed,
            version,
            next_node: next,
            saw_unsynced: self.layers.saw_unsynced(),
            changes: ChangeSet { entries: self.layers.own, releases: self.releases },
        }
    }

    /// Whether the transaction read unsynced changes.
    pub fn saw_unsynced(&self) -> bool {
        self.layers.saw_unsynced()
    }

    fn existing(&self) -> Result<&Content> {
        self.content.as_ref().ok_or_else(|| Error::not_found("no such object"))
    }

    fn check_writable(&self) -> Result<()> {
        match self.mode {
            Mode::Write { .. } => Ok(()),
            Mode::Read => {
                Err(Error::denied("a method that is declared read-only tried to change the object"))
            }
        }
    }

    /// The content to change; the object must exist.
    fn changing(&mut self) -> Result<&mut Content> {
        self.check_writable()?;
        let content = self.content.as_mut().ok_or_else(|| Error::not_found("no such object"))?;
        self.is_changed = true;
        Ok(content)
    }

    /// The content to change. Creates the object if it does not exist.
    fn writing(&mut self) -> Result<&mut Content> {
        self.check_writable()?;
        self.is_changed = true;
        Ok(self.content.get_or_insert_default())
    }

    fn charge(&mut self, bytes: usize) -> Result<()> {
        bounds::check_transaction_bytes(self.written_bytes + bytes)?;
        self.written_bytes += bytes;
        Ok(())
    }

    /// A node that was never used before.
    fn new_node(&mut self) -> NodeId {
        let Mode::Write { shard, next_node, .. } = &mut self.mode else {
            unreachable!("only writing transactions make nodes")
        };
        let node = NodeId::new(*shard, *next_node);
        *next_node += 1;
        node
    }

    fn load(&self, value: &Value) -> Result<Bytes> {
        match value {
            Value::Inline(data) => Ok(data.clone()),
            Value::Pieces(pieces) => self.segments.read_pieces(pieces),
        }
    }

    /// Releases the payloads that an entry refers to, just before its value is replaced or deleted.
    fn release(&mut self, owner: &Key, pieces: &[Piece]) {
        // A value that this transaction put itself was never counted.
        if self.layers.own.contains_key(owner) {
            return;
        }
        self.releases.extend(pieces.iter().filter_map(|piece| Release::of(owner, piece)));
    }
}

fn read_head(layers: &Layers<'_>, key: &[u8]) -> Result<Option<Head>> {
    layers.get(key)?.map(|value| Head::decode(&value.into_inline()?)).transpose()
}

fn no_snapshot(snapshot: &SnapshotName) -> Error {
    Error::not_found(format!("no snapshot {snapshot}"))
}

impl ObjectView for Transaction<'_> {
    fn exists(&mut self) -> Result<bool> {
        Ok(self.content.is_some())
    }

    fn stat(&mut self) -> Result<ObjectStat> {
        let size = self.existing()?.size;
        Ok(ObjectStat { size, modified_micros: self.modified_micros, version: self.version })
    }

    fn version(&mut self) -> Result<u64> {
        Ok(self.version)
    }

    fn create(&mut self, exclusive: bool) -> Result<()> {
        match self.content {
            Some(_) if exclusive => Err(Error::exists("the object already exists")),
            Some(_) => Ok(()),
            None => self.writing().map(drop),
        }
    }

    fn remove(&mut self) -> Result<()> {
        let content = std::mem::take(self.changing()?);
        self.content = None;
        [content.stream, content.map, content.attributes]
            .into_iter()
            .flatten()
            .try_for_each(|node| self.drop_node(node).map(drop))
    }

    fn read(&mut self, offset: u64, length: u64) -> Result<Bytes> {
        self.read_stream(offset, length)
    }

    fn write(&mut self, offset: u64, data: Bytes) -> Result<()> {
        self.write_stream(offset, data)
    }

    fn write_full(&mut self, data: Bytes) -> Result<()> {
        self.replace_stream(data)
    }

    fn append(&mut self, data: Bytes) -> Result<u64> {
        let offset = self.content.as_ref().map_or(0, |content| content.size);
        self.write_stream(offset, data)?;
        Ok(offset)
    }

    fn truncate(&mut self, size: u64) -> Result<()> {
        self.resize_stream(size)
    }

    fn zero(&mut self, offset: u64, length: u64) -> Result<()> {
        self.zero_stream(offset, length)
    }

    fn attribute(&mut self, name: &str) -> Result<Option<Bytes>> {
        self.get_attribute(name)
    }

    fn attributes(&mut self) -> Result<Vec<(String, Bytes)>> {
        self.all_attributes()
    }

    fn set_attribute(&mut self, name: &str, value: Bytes) -> Result<()> {
        self.put_attribute(name, value)
    }

    fn remove_attribute(&mut self, name: &str) -> Result<()> {
        self.delete_attribute(name)
    }

    fn map_get(&mut self, key: &[u8]) -> Result<Option<Bytes>> {
        self.get_entry(key)
    }

    fn map_set(&mut self, key: &[u8], value: Bytes) -> Result<()> {
        self.put_entry(key, value)
    }

    fn map_remove(&mut self, key: &[u8]) -> Result<()> {
        self.delete_entry(key)
    }

    fn map_clear(&mut self) -> Result<()> {
        self.clear_map()
    }

    fn map_range(&mut self, after: &[u8], prefix: &[u8], limit: usize) -> Result<MapRange> {
        self.range_of_map(after, prefix, limit)
    }

    fn map_last(&mut self, prefix: &[u8]) -> Result<Option<MapEntry>> {
        self.last_entry(prefix)
    }

    fn map_header(&mut self) -> Result<Bytes> {
        self.get_map_header()
    }

    fn set_map_header(&mut self, value: Bytes) -> Result<()> {
        self.put_map_header(value)
    }
}

impl TransactionView for Transaction<'_> {
    fn snapshot_create(&mut self, snapshot: &SnapshotName) -> Result<()> {
        self.take_snapshot(snapshot)
    }

    fn snapshot_remove(&mut self, snapshot: &SnapshotName) -> Result<()> {
        self.drop_snapshot(snapshot)
    }

    fn snapshots(&mut self) -> Result<Vec<SnapshotName>> {
        self.list_snapshots()
    }

    fn rollback(&mut self, snapshot: &SnapshotName) -> Result<()> {
        self.roll_back(snapshot)
    }

    fn clone_from(&mut self, source: &ObjectName, snapshot: &SnapshotName) -> Result<()> {
        self.clone_content(source, snapshot)
    }

    fn write_full_from(&mut self, source: &ObjectName, snapshot: &SnapshotName) -> Result<()> {
        self.replace_stream_from(source, snapshot)
    }
}
