//! What a transaction asks of the OSD once it has succeeded.

use bytes::Bytes;

/// One change of an object, in RADOS' terms: names and keys are as they are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Make the object exist.
    Create,
    /// Remove the object with all it holds.
    Remove,
    /// Replace the data.
    WriteFull(Bytes),
    /// Put bytes into the data.
    Write {
        /// Where the first goes.
        offset: u64,
        /// The bytes; at least one.
        data: Bytes,
    },
    /// Writes zeros over a part of the data. The part must end before the end of the data;
    /// otherwise an OSD cuts off the data from the start of the part.
    Zero {
        /// The first byte.
        offset: u64,
        /// So many; at least one.
        length: u64,
    },
    /// Cut or extend the data.
    Truncate(u64),
    /// Set an xattr.
    SetAttribute {
        /// Its name.
        name: String,
        /// Its value.
        value: Bytes,
    },
    /// Remove an xattr. The class API has no way to do it.
    RemoveAttribute(String),
    /// Remove every omap entry.
    ClearMap,
    /// Set omap entries.
    SetEntries(Vec<(Bytes, Bytes)>),
    /// Remove an omap entry, whether it is there or not.
    RemoveEntry(Bytes),
}
