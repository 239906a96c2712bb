//! What is known of a class's objects: how many there are, and how many rows each has.

/// Rows of an object if they are unknown.
pub(super) const ASSUMED_ROWS: u64 = 128;
/// Number of objects if it is unknown.
pub(super) const ASSUMED_OBJECTS: u64 = 32;

/// Known numbers of a class's objects and rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Objects {
    /// How many there are.
    pub count: Option<u64>,
    /// How many rows one has, on average.
    pub rows: Rows,
}

/// How many rows there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Rows {
    /// Unknown.
    #[default]
    Unknown,
    /// About so many.
    About(u64),
    /// So many were counted, and there are more.
    MoreThan(u64),
}

impl Rows {
    pub(super) fn counted(self) -> Option<u64> {
        match self {
            Self::Unknown => None,
            Self::About(rows) | Self::MoreThan(rows) => Some(rows),
        }
    }
}

impl Objects {
    /// The number of objects, and of rows in each: the known numbers, or else assumed ones.
    pub(crate) fn assumed(&self) -> (u64, u64) {
        let rows = self.rows.counted().unwrap_or(ASSUMED_ROWS);
        (self.count.unwrap_or(ASSUMED_OBJECTS), rows)
    }
}
