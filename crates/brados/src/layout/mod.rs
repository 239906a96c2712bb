//! Layouts: where what a program keeps lies in an object.
//!
//! One logical program can be kept in many ways. A [`Layout`] says for each table, and for the header
//! (all there is one of), which: in the map, at fixed places of the byte stream, or appended to it. It
//! is written in the program itself (`layout log: slots(4096), header: attribute`), so it is part of
//! what is put, named by its digest and compiled everywhere; what is not named lies in the map.
//!
//! | table | its rows lie |
//! |---|---|
//! | `map` | each in an entry of the map |
//! | `slots(BYTES)`, `slots(BYTES, COUNT)` | each at a place of the byte stream computed from its key |
//! | `appended(map)` | at the end of the byte stream, found by an index in the map |
//! | `appended(stream)`, `appended(stream, COUNT)` | … by an index of fixed size before them |
//!
//! `header` lies in the `map`, in an `attribute`, or at the beginning of the `stream`; `stripes: 8` or
//! `stripes: each` divides the object among several (`crate::stripes`).
//!
//! - `text`: how layouts are written;
//! - `legality`: which are possible for a program, and why the others are not;
//! - `choices`: all that are possible;
//! - `header`: what there is one of, as one record;
//! - `stream`: who has which part of the byte stream, `room`: how many rows that may be;
//! - `source`: the layout of a source exchanged for another.
//!
//! **Invariant.** A layout changes where rows lie and nothing else: whatever does not fit where it
//! should be (a row wider than its slot, a key without one) is kept in the map, and every request comes
//! to the same in every layout.

mod choices;
pub(crate) mod header;
mod legality;
mod room;
mod source;
pub(crate) mod stream;
mod text;

use std::collections::BTreeMap;

pub use self::choices::{Choices, TableChoices};
pub use self::legality::{Illegal, check};
pub(crate) use self::legality::{Stored, check_declared};
pub use self::room::most_rows_in_stream;
pub use self::source::with_layout;
pub use self::text::LayoutError;

/// Where everything lies.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Layout {
    /// The tables that are not in the map, by name.
    tables: BTreeMap<String, TablePlace>,
    /// Where the header is.
    pub header: HeaderPlace,
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
    /// One for each value of the columns that divide it.
    Each,
}

/// Where the rows of a table lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum TablePlace {
    /// In the map.
    #[default]
    Map,
    /// In slots of so many bytes, one for each number from the first on; so many slots, or as many as
    /// the byte stream has room for.
    Slots {
        /// Bytes of a slot, one of which says what is in it.
        bytes: u32,
        /// How many slots.
        count: Option<u32>,
    },
    /// Appended to the byte stream.
    Appended(IndexPlace),
}

/// Where the index of an appended table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum IndexPlace {
    /// In the map.
    Map,
    /// At the beginning of the byte stream, with room for so many rows.
    Stream {
        /// How many rows it has room for; those of other keys are in the map.
        count: u32,
    },
}

/// Where the header is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum HeaderPlace {
    /// In the map.
    #[default]
    Map,
    /// In an attribute.
    Attribute,
    /// At the beginning of the byte stream.
    Stream,
}

impl Layout {
    /// Where a table lies.
    pub fn table(&self, name: &str) -> TablePlace {
        self.tables.get(name).copied().unwrap_or_default()
    }

    /// The tables that are not in the map.
    pub fn tables(&self) -> impl Iterator<Item = (&str, TablePlace)> {
        self.tables.iter().map(|(name, place)| (name.as_str(), *place))
    }

    /// The same, divided among so many objects.
    #[must_use]
    pub fn with_stripes(mut self, stripes: Stripes) -> Self {
        self.stripes = stripes;
        self
    }

    /// Puts a table somewhere else.
    pub fn set_table(&mut self, name: &str, place: TablePlace) {
        match place {
            TablePlace::Map => drop(self.tables.remove(name)),
            _ => drop(self.tables.insert(name.to_owned(), place)),
        }
    }

    /// Whether anything lies in the byte stream.
    pub fn uses_stream(&self) -> bool {
        !self.tables.is_empty() || self.header == HeaderPlace::Stream
    }
}
