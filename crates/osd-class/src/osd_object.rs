//! The interface to the object on which an OSD calls a method: what the class API of the OSD
//! offers.

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
    /// Whether more entries with the prefix follow.
    pub more: bool,
}

/// One object of an OSD during one call.
///
/// Reads show the object as it was before the call, even after changes were applied. An object that
/// does not exist has no data, xattrs or omap entries. Setting xattrs or omap entries creates it.
///
/// Every method fails only with an error of the OSD: `Corrupt` or `Unavailable`.
pub trait OsdObject {
    /// Size and time; `None` if the object does not exist.
    fn stat(&mut self) -> Result<Option<OsdStat>>;

    /// The object's version. If the object does not exist, a version at least as great as its last.
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
