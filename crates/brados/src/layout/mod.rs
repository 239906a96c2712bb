//! Layouts: where an object stores the data of its program.
//!
//! The same program can be stored in many ways. A [`Layout`] says where each table and the header
//! are. (The header is the data that an object has only once.) They can be in the map, at fixed
//! offsets of the byte stream, or appended to the stream. The program's source contains the layout
//! (`layout log: slots(4096), header: attribute`). So the layout belongs to the program's version
//! and digest like the rest of the source. A table that the layout does not name is in the map.
//!
//! | location of a table | its rows are |
//! |---|---|
//! | `map` | entries of the map |
//! | `slots(BYTES)`, `slots(BYTES, COUNT)` | in slots of the byte stream, each at an offset computed from the row's key |
//! | `appended(map)` | at the end of the byte stream, found by an index in the map |
//! | `appended(stream)`, `appended(stream, COUNT)` | at the end of the byte stream, found by an index of fixed size at its beginning |
//!
//! `header` is in the `map`, in an `attribute`, or at the beginning of the `stream`. `stripes: 8`
//! or `stripes: each` divides the object into several (`crate::stripes`).
//!
//! - `notation`: parsing and printing of layouts;
//! - `legality`: which layouts are possible for a program, and why the others are not;
//! - `choices`: all possible layouts;
//! - `header`: the fields of the header;
//! - `stream`: the division of the byte stream; `row_bound`: how many rows the stream may hold;
//! - `source`: replaces the layout in a source.
//!
//! **Invariant.** A layout changes only where rows are stored. A row that does not fit into its
//! location is stored in the map: its value is wider than a slot, or its key has no slot. Every
//! request gives the same result in every layout.

mod choices;
pub(crate) mod header;
mod legality;
mod notation;
mod row_bound;
mod source;
pub(crate) mod stream;

use std::collections::BTreeMap;

pub use self::choices::{Choices, TableChoices};
pub use self::legality::{Illegal, check};
pub(crate) use self::legality::{Stored, check_declared};
pub use self::notation::LayoutError;
pub use self::row_bound::most_rows_in_stream;
pub use self::source::with_layout;

/// The locations of all tables and of the header.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Layout {
    /// The tables that are not in the map, by name.
    tables: BTreeMap<String, TableLocation>,
    /// Where the header is.
    pub header: HeaderLocation,
    /// The objects it is divided among.
    pub stripes: Stripes,
}

/// How many objects one logical object is divided among (`crate::stripes`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Stripes {
    /// It is one object.
    #[default]
    None,
    /// So many.
    Count(u32),
    /// One object for each value of the columns that divide it.
    Each,
}

/// The location of a table's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum TableLocation {
    /// In the map.
    #[default]
    Map,
    /// Each row is in a slot of this many bytes. Successive numbers have successive slots, from the
    /// first number that was stored. The number of slots is given, or the size of the byte stream
    /// bounds it.
    Slots {
        /// The size of a slot in bytes. The first byte is the state of the slot.
        bytes: u32,
        /// How many slots.
        count: Option<u32>,
    },
    /// Appended to the byte stream.
    Appended(IndexLocation),
}

/// Where the index of an appended table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum IndexLocation {
    /// In the map.
    Map,
    /// At the beginning of the byte stream.
    Stream {
        /// How many rows the index can hold. Rows with other keys are in the map.
        count: u32,
    },
}

/// Where the header is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum HeaderLocation {
    /// In the map.
    #[default]
    Map,
    /// In an attribute.
    Attribute,
    /// At the beginning of the byte stream.
    Stream,
}

impl Layout {
    /// The location of a table.
    pub fn table(&self, name: &str) -> TableLocation {
        self.tables.get(name).copied().unwrap_or_default()
    }

    /// The tables that are not in the map.
    pub fn tables(&self) -> impl Iterator<Item = (&str, TableLocation)> {
        self.tables.iter().map(|(name, location)| (name.as_str(), *location))
    }

    /// This layout, with its rows divided among as many objects as `stripes` says.
    #[must_use]
    pub fn with_stripes(mut self, stripes: Stripes) -> Self {
        self.stripes = stripes;
        self
    }

    /// Changes the location of a table.
    pub fn set_table(&mut self, name: &str, location: TableLocation) {
        match location {
            TableLocation::Map => drop(self.tables.remove(name)),
            _ => drop(self.tables.insert(name.to_owned(), location)),
        }
    }

    /// Whether the layout uses the byte stream.
    pub fn uses_stream(&self) -> bool {
        !self.tables.is_empty() || self.header == HeaderLocation::Stream
    }
}
