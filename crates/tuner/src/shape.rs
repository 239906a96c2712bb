//! The accesses of a transaction to its object.

use serde::{Deserialize, Serialize};

/// A kind of access to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Reading whether the object exists, or how long its stream is.
    Stat,
    /// Looking up an entry of the map, whether or not it exists.
    MapGet,
    /// Reading entries of the map in order.
    MapRange,
    /// Reading a part of the byte stream.
    StreamRead,
    /// Reading an attribute.
    AttributeGet,
    /// Setting an entry of the map.
    MapSet,
    /// Removing an entry of the map.
    MapRemove,
    /// Overwriting bytes of the stream.
    StreamWrite,
    /// Writing bytes past the end of the stream.
    StreamAppend,
    /// Setting an attribute.
    AttributeSet,
}

impl Access {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Stat,
        Self::MapGet,
        Self::MapRange,
        Self::StreamRead,
        Self::AttributeGet,
        Self::MapSet,
        Self::MapRemove,
        Self::StreamWrite,
        Self::StreamAppend,
        Self::AttributeSet,
    ];

    /// Whether it changes the object.
    pub fn writes(self) -> bool {
        matches!(
            self,
            Self::MapSet
                | Self::MapRemove
                | Self::StreamWrite
                | Self::StreamAppend
                | Self::AttributeSet
        )
    }

    /// Whether the access has a variable number of bytes.
    pub fn has_size(self) -> bool {
        !matches!(self, Self::Stat | Self::MapRemove)
    }
}

/// The accesses of a transaction, each with its number of bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shape {
    /// In order.
    pub touches: Vec<(Access, usize)>,
}

impl Shape {
    /// Whether it changes the object.
    pub fn writes(&self) -> bool {
        self.touches.iter().any(|(access, _)| access.writes())
    }
}
