//! `ObjectView`: the waist inside an object.

use bytes::Bytes;

use crate::{MapRange, ObjectStat, Result};

/// One object as a running class method sees it. Engines also apply the ops of a transaction to it.
///
/// Reads see the transaction's own earlier writes. An implementation collects all changes: they are
/// committed if the transaction succeeds, and dropped if it fails. It also enforces the bounds of
/// [`crate::limits`].
///
/// Errors of every method:
///
/// - `Invalid` for a name or value that can never be accepted, which is checked first (see
///   [`crate::bounds`]);
/// - `NotFound` if the object must exist and does not (a write creates an absent object);
/// - `Exhausted` if a bound of the object or the transaction would be exceeded;
/// - `Corrupt` if stored data fails its checksum.
///
/// A write that fails with `Invalid`, `NotFound` or `Exists` has changed nothing, so a method may
/// continue after it.
pub trait ObjectView {
    /// Whether the object exists.
    fn exists(&mut self) -> Result<bool>;

    /// Size, time of change and version; the object must exist.
    ///
    /// The version and the time are those from before the transaction, even if the transaction has
    /// changed the object.
    fn stat(&mut self) -> Result<ObjectStat>;

    /// The version before this transaction. For an absent object it is 0, or a version that no
    /// object of that name ever had.
    fn version(&mut self) -> Result<u64>;

    /// Makes the object exist. If it exists already, fails with `Exists` if `exclusive`, and
    /// otherwise changes nothing.
    fn create(&mut self, exclusive: bool) -> Result<()>;

    /// Removes stream, map, header and attributes, but not the snapshots. The object must exist.
    fn remove(&mut self) -> Result<()>;

    /// Reads bytes `offset..offset+length`, cut at the end of the stream. The object must exist.
    fn read(&mut self, offset: u64, length: u64) -> Result<Bytes>;

    /// Puts bytes at `offset`; a gap before it reads as zeros. The stream then ends at `offset +
    /// data.len()` or later, even if the data is empty.
    fn write(&mut self, offset: u64, data: Bytes) -> Result<()>;

    /// Replaces the whole stream.
    fn write_full(&mut self, data: Bytes) -> Result<()>;

    /// Puts bytes at the end of the stream. Returns the offset where they begin.
    fn append(&mut self, data: Bytes) -> Result<u64>;

    /// Cuts or extends (with zeros) the stream to `size` bytes.
    fn truncate(&mut self, size: u64) -> Result<()>;

    /// Makes `offset..offset+length` read as zeros, as far as it lies within the stream. The object
    /// must exist.
    fn zero(&mut self, offset: u64, length: u64) -> Result<()>;

    /// Returns an attribute's value, or `None` if there is no attribute of that name. The object
    /// must exist.
    fn attribute(&mut self, name: &str) -> Result<Option<Bytes>>;

    /// All attributes in name order; the object must exist.
    fn attributes(&mut self) -> Result<Vec<(String, Bytes)>>;

    /// Sets an attribute.
    fn set_attribute(&mut self, name: &str, value: Bytes) -> Result<()>;

    /// Removes an attribute; `NotFound` if there is none of that name.
    fn remove_attribute(&mut self, name: &str) -> Result<()>;

    /// Returns a key's value, or `None` if the key is not there. The object must exist.
    fn map_get(&mut self, key: &[u8]) -> Result<Option<Bytes>>;

    /// Sets a key.
    fn map_set(&mut self, key: &[u8], value: Bytes) -> Result<()>;

    /// Removes a key. It is no error if the key is not there. The object must exist.
    fn map_remove(&mut self, key: &[u8]) -> Result<()>;

    /// Removes every key and the header; the object must exist.
    fn map_clear(&mut self) -> Result<()>;

    /// Returns entries whose keys begin with `prefix` and are greater than `after`, in key order.
    /// An empty `after` means from the start. Returns at most `limit` entries, at most
    /// `MAX_MAP_RANGE_ENTRIES`, and at most `MAX_REPLY_BYTES` of keys and values. The object must
    /// exist.
    fn map_range(&mut self, after: &[u8], prefix: &[u8], limit: usize) -> Result<MapRange>;

    /// Returns the last entry, in key order, whose key begins with `prefix`. The object must exist.
    /// A log finds its tail with this method, without reading the whole map.
    fn map_last(&mut self, prefix: &[u8]) -> Result<Option<crate::MapEntry>>;

    /// Returns the map's header, which is empty if none was set. The object must exist.
    fn map_header(&mut self) -> Result<Bytes>;

    /// Sets the map's header.
    fn set_map_header(&mut self, value: Bytes) -> Result<()>;
}
