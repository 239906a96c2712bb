//! What the class API of an OSD gives of the object a method was called on.

use bytes::Bytes;
use nacre_object::Result;

use crate::Change;

/// Size and time of change of an object that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OsdStat {
    /// Bytes of the data.
    pub size: u64,
    /// Microseconds since 1970.
    pub modified_micros: u64,
}

/// A stored name or key, and its value.
pub type StoredEntry = (Bytes, Bytes);

/// Some omap entries in key order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredRange {
    /// The entries.
    pub entries: Vec<StoredEntry>,
    /// Whether there are more with the prefix behind them.
    pub more: bool,
}

/// One object of an OSD during one call.
///
/// Reads show the object as it was before the call, even after changes were applied. An object that
/// does not exist has no data, xattrs or omap entries. Setting xattrs or omap entries creates it.
///
/// Every method fails only with an error of the OSD: `Corrupt` or `Unavailable`.
pub trait OsdObject {
    /// Size and time; `None` if it does not exist.
    fn stat(&mut self) -> Result<Option<OsdStat>>;

    /// Its version; of an absent object, one that is not less than its last.
    fn version(&mut self) -> Result<u64>;

    /// Bytes of the data, cut at its end.
    fn read(&mut self, offset: u64, length: u64) -> Result<Bytes>;

    /// All xattrs.
    fn attributes(&mut self) -> Result<Vec<StoredEntry>>;

    /// The value of an omap entry.
    fn entry(&mut self, key: &[u8]) -> Result<Option<Bytes>>;

    /// At most `limit` omap entries with `prefix` and a key greater than `after`. An OSD may return
    /// fewer than `limit` entries although there are more.
    fn range(&mut self, after: &[u8], prefix: &[u8], limit: usize) -> Result<StoredRange>;

    /// Gives a change to the OSD. The OSD commits it if the call succeeds.
    ///
    /// # Errors
    /// After an error the call must fail, so that the OSD drops the earlier changes.
    fn apply(&mut self, change: Change) -> Result<()>;
}
