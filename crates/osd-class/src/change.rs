//! The changes that a successful transaction gives to the OSD.

use bytes::Bytes;

/// One change of an object. Names and keys have their stored form.
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
        /// The bytes; at least one byte.
        data: Bytes,
    },
    /// Writes zeros over a part of the data. The part must end before the end of the data;
    /// otherwise an OSD cuts off the data from the start of the part.
    Zero {
        /// The first byte.
        offset: u64,
        /// The number of zeros; at least one.
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
    /// Remove an xattr. The class API has no function for this.
    RemoveAttribute(String),
    /// Remove every omap entry.
    ClearMap,
    /// Set omap entries.
    SetEntries(Vec<(Bytes, Bytes)>),
    /// Remove an omap entry, whether it exists or not.
    RemoveEntry(Bytes),
}
