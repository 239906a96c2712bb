//! Whether a request reads or writes: devices do the two at different speeds.

use serde::{Deserialize, Serialize};

/// Whether a request reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IoKind {
    /// Data comes from the device.
    Read,
    /// Data goes to the device.
    Write,
}

impl IoKind {
    /// Both kinds, in declaration order.
    pub const ALL: [Self; 2] = [Self::Read, Self::Write];

    /// The index of this kind in [`IoKind::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The word for this kind in nacre's traces.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}
