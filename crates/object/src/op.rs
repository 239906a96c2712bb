//! The operations a transaction is made of, and what each answers.

use bytes::Bytes;

use crate::class_host::{CallReply, ClassCall};
use crate::{Capability, ObjectName, SnapshotName};

/// Attributes that nacre itself sets on objects of clients. Clients and scripts can read and not change
/// them.
pub const OWN_ATTRIBUTES: [&str; 2] = ["nacre.erasure", "nacre.waypoint"];

/// A key of an object's map with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapEntry {
    /// The key.
    pub key: Bytes,
    /// The value.
    pub value: Bytes,
}

/// Part of an object's map, in key order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MapRange {
    /// The entries.
    pub entries: Vec<MapEntry>,
    /// Whether there are more entries after the last one. To read on, use its key as `after`.
    pub more: bool,
}

/// What is known of an object without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectStat {
    /// Length of the byte stream, in bytes.
    pub size: u64,
    /// When it was last changed: microseconds since 1970, UTC.
    pub modified_micros: u64,
    /// The version of the object, which rises with every transaction that changes the object. It
    /// does not restart if the object is removed and made again, so each version of a name is used
    /// only once.
    pub version: u64,
}

/// One operation on an object. A list of operations is a transaction.
///
/// Ops run in order and see the effects of earlier ones. The first op that fails ends the
/// transaction, and all its changes are dropped. A write to an absent object creates it; a read of
/// an absent object is `NotFound`.
///
/// A transaction that has a write among its ops gives the object a new version, even if the content
/// stays the same. A `Call` counts as a write if the method wrote. Three ops do not count as
/// writes: `Create` of an existing object, `SnapshotCreate` and `SnapshotRemove`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Guard: the object exists, else `NotFound`.
    AssertExists,
    /// Guard: the object does not exist, else `Exists`.
    AssertAbsent,
    /// Guard: fails with `Conflict` unless this is the object's version before the transaction.
    /// `NotFound` if the object is absent.
    AssertVersion(u64),
    /// Make the object exist; if `exclusive`, it must not exist yet (`Exists`).
    Create {
        /// Fail if it exists.
        exclusive: bool,
    },
    /// Remove the object with everything in it except its snapshots. `NotFound` if it is absent.
    Remove,
    /// Size, time of change, version.
    Stat,
    /// Bytes `offset..offset+length`, cut at the end of the stream.
    Read {
        /// First byte.
        offset: u64,
        /// At most so many bytes.
        length: u64,
    },
    /// Put bytes at `offset`; a gap before it reads as zeros. Empty data past the end of the stream
    /// extends the stream to `offset`. Every op that would extend the stream beyond
    /// `MAX_OBJECT_BYTES` fails with `Exhausted`.
    Write {
        /// First byte.
        offset: u64,
        /// The bytes.
        data: Bytes,
    },
    /// Replace the whole stream.
    WriteFull {
        /// The new content.
        data: Bytes,
    },
    /// Put bytes at the end of the stream; returns the offset they went to.
    Append {
        /// The bytes.
        data: Bytes,
    },
    /// Cut or extend (with zeros) the stream to `size` bytes.
    Truncate {
        /// The new size.
        size: u64,
    },
    /// Make `offset..offset+length` read as zeros. The size does not change. `NotFound` if the
    /// object is absent.
    Zero {
        /// First byte.
        offset: u64,
        /// So many bytes.
        length: u64,
    },
    /// Read an attribute's value. `NotFound` if there is no attribute of that name.
    GetAttribute {
        /// Its name.
        name: String,
    },
    /// All attributes, by name.
    GetAttributes,
    /// Set an attribute; `Exhausted` past `MAX_ATTRIBUTES`.
    SetAttribute {
        /// Its name.
        name: String,
        /// Its value.
        value: Bytes,
    },
    /// Remove an attribute; `NotFound` if it has none of that name.
    RemoveAttribute {
        /// Its name.
        name: String,
    },
    /// Read the values of some keys, in the order of the request. The value of a missing key is
    /// `None`.
    MapGet {
        /// The keys.
        keys: Vec<Bytes>,
    },
    /// Set keys. No entries at all create an absent object.
    MapSet {
        /// The entries.
        entries: Vec<MapEntry>,
    },
    /// Remove keys; a missing key is no error. `NotFound` if the object is absent.
    MapRemove {
        /// The keys.
        keys: Vec<Bytes>,
    },
    /// Read at most `limit` entries of the map whose keys begin with `prefix` and are greater than
    /// `after`. With a limit of 0, the reply only says whether there are any.
    MapRange {
        /// Exclusive lower bound; empty for none.
        after: Bytes,
        /// Only keys that start so; empty for all.
        prefix: Bytes,
        /// At most so many (further bounded by `MAX_MAP_RANGE_ENTRIES` and `MAX_REPLY_BYTES`).
        limit: u32,
    },
    /// Remove every key and the map header; `NotFound` if absent.
    MapClear,
    /// The map's header; empty if none was set.
    MapGetHeader,
    /// Set the map's header.
    MapSetHeader {
        /// The header.
        value: Bytes,
    },
    /// Keep the present state of the object under a name. `NotFound` if the object is absent.
    /// `Exists` if the name is taken, `Exhausted` if `MAX_SNAPSHOTS` or `MAX_SNAPSHOT_ENTRIES`
    /// would be exceeded.
    SnapshotCreate {
        /// The snapshot.
        snapshot: SnapshotName,
    },
    /// Drop a snapshot; `NotFound` if there is none of that name.
    SnapshotRemove {
        /// The snapshot.
        snapshot: SnapshotName,
    },
    /// List the snapshots of the object by name. The object may be absent.
    SnapshotList,
    /// Restore stream, map, header and attributes from a snapshot, even if the object was removed.
    /// The snapshots stay. `NotFound` if there is no snapshot of that name.
    Rollback {
        /// The snapshot.
        snapshot: SnapshotName,
    },
    /// Create this object as a copy of a snapshot of another object on the same target: stream,
    /// map, header and attributes. `Exists` if this object exists; `NotFound` if there is no such
    /// snapshot.
    CloneFrom {
        /// The other object, in the same pool. To restore the same object, use [`Op::Rollback`].
        source: ObjectName,
        /// Its snapshot.
        snapshot: SnapshotName,
    },
    /// Replace the whole stream by that of a snapshot of another object on the same target. Map and
    /// attributes stay. `NotFound` if there is no such snapshot.
    WriteFullFrom {
        /// The other object, of the same pool.
        source: ObjectName,
        /// Its snapshot.
        snapshot: SnapshotName,
    },
    /// Run a method of a class, as part of this transaction.
    Call(ClassCall),
}

impl Op {
    /// Whether the op can change the object. Returns `true` for every call, because only the class
    /// knows whether a method writes.
    pub fn is_write(&self) -> bool {
        !matches!(
            self,
            Self::AssertExists
                | Self::AssertAbsent
                | Self::AssertVersion(_)
                | Self::Stat
                | Self::Read { .. }
                | Self::GetAttribute { .. }
                | Self::GetAttributes
                | Self::MapGet { .. }
                | Self::MapRange { .. }
                | Self::MapGetHeader
                | Self::SnapshotList
        )
    }

    /// Returns the capability that a store needs for this op, if not every store has it.
    pub fn capability(&self) -> Option<Capability> {
        match self {
            Self::Call(_) => Some(Capability::Classes),
            Self::CloneFrom { .. } | Self::WriteFullFrom { .. } => Some(Capability::Clone),
            Self::SnapshotCreate { .. }
            | Self::SnapshotRemove { .. }
            | Self::SnapshotList
            | Self::Rollback { .. } => Some(Capability::Snapshots),
            _ => None,
        }
    }

    /// Returns the other object whose snapshot this op copies, if it copies one.
    pub fn source(&self) -> Option<&ObjectName> {
        match self {
            Self::CloneFrom { source, .. } | Self::WriteFullFrom { source, .. } => Some(source),
            _ => None,
        }
    }

    /// Bytes this op carries, for bounds and back-pressure.
    pub fn payload_bytes(&self) -> usize {
        match self {
            Self::Write { data, .. } | Self::WriteFull { data } | Self::Append { data } => {
                data.len()
            }
            Self::GetAttribute { name } | Self::RemoveAttribute { name } => name.len(),
            Self::SetAttribute { name, value } => name.len() + value.len(),
            Self::MapGet { keys } | Self::MapRemove { keys } => keys.iter().map(Bytes::len).sum(),
            Self::MapSet { entries } => entries.iter().map(|e| e.key.len() + e.value.len()).sum(),
            Self::MapRange { after, prefix, .. } => after.len() + prefix.len(),
            Self::MapSetHeader { value } => value.len(),
            Self::Call(call) => call.input.len(),
            _ => 0,
        }
    }

    /// Returns how many keys of the map this op names, for bounds and back-pressure.
    pub fn key_count(&self) -> usize {
        match self {
            Self::MapGet { keys } | Self::MapRemove { keys } => keys.len(),
            Self::MapSet { entries } => entries.len(),
            _ => 0,
        }
    }

    /// The op's name, as errors and metrics give it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AssertExists => "assert-exists",
            Self::AssertAbsent => "assert-absent",
            Self::AssertVersion(_) => "assert-version",
            Self::Create { .. } => "create",
            Self::Remove => "remove",
            Self::Stat => "stat",
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
            Self::WriteFull { .. } => "write-full",
            Self::Append { .. } => "append",
            Self::Truncate { .. } => "truncate",
            Self::Zero { .. } => "zero",
            Self::GetAttribute { .. } => "get-attribute",
            Self::GetAttributes => "get-attributes",
            Self::SetAttribute { .. } => "set-attribute",
            Self::RemoveAttribute { .. } => "remove-attribute",
            Self::MapGet { .. } => "map-get",
            Self::MapSet { .. } => "map-set",
            Self::MapRemove { .. } => "map-remove",
            Self::MapRange { .. } => "map-range",
            Self::MapClear => "map-clear",
            Self::MapGetHeader => "map-get-header",
            Self::MapSetHeader { .. } => "map-set-header",
            Self::SnapshotCreate { .. } => "snapshot-create",
            Self::SnapshotRemove { .. } => "snapshot-remove",
            Self::SnapshotList => "snapshot-list",
            Self::Rollback { .. } => "rollback",
            Self::CloneFrom { .. } => "clone-from",
            Self::WriteFullFrom { .. } => "write-full-from",
            Self::Call(_) => "call",
        }
    }
}

/// What one op answered; which variant follows from the op.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpResult {
    /// Done; nothing to say (guards and most writes).
    Done,
    /// For `Stat`.
    Stat(ObjectStat),
    /// For `Read`, `GetAttribute` and `MapGetHeader`.
    Data(Bytes),
    /// For `Append`: the offset the bytes went to.
    Offset(u64),
    /// For `GetAttributes`, by name.
    Attributes(Vec<(String, Bytes)>),
    /// For `MapGet`, in the order asked for.
    Values(Vec<Option<Bytes>>),
    /// For `MapRange`.
    Range(MapRange),
    /// For `SnapshotList`.
    Snapshots(Vec<SnapshotName>),
    /// For `Call`.
    Called(CallReply),
}

impl OpResult {
    /// Bytes this result carries, for bounds and back-pressure.
    pub fn payload_bytes(&self) -> usize {
        match self {
            Self::Data(data) => data.len(),
            Self::Attributes(all) => all.iter().map(|(name, value)| name.len() + value.len()).sum(),
            Self::Values(values) => values.iter().flatten().map(Bytes::len).sum(),
            Self::Range(range) => range.entries.iter().map(|e| e.key.len() + e.value.len()).sum(),
            Self::Snapshots(names) => names.iter().map(|name| name.as_str().len()).sum(),
            Self::Called(reply) => reply.output.len(),
            _ => 0,
        }
    }

    /// Entries, values and names in it, for bounds.
    pub fn entry_count(&self) -> usize {
        match self {
            Self::Attributes(all) => all.len(),
            Self::Values(values) => values.len(),
            Self::Range(range) => range.entries.len(),
            Self::Snapshots(names) => names.len(),
            _ => 0,
        }
    }
}
