//! Programs: versioned policy source for one hook, kept, activated and spread.
//!
//! - The source of a version is an immutable object `program/DIGEST` of the system pool.
//! - What versions there are and which is active is one entry of the map `programs` each
//!   ([`record`]), so that activation and rollback are one commit.
//! - Nodes follow that map and report what they made live in the map `program-status`
//!   ([`status`], `crate::subscriber`).

mod garbage;
mod handle;
mod id;
mod kind;
mod record;
mod source;
mod status;
mod upkeep;
mod used;

pub use garbage::{Garbage, SourceObject};
pub use handle::{Activation, ProgramInfo, Programs, Removal, VersionInfo};
pub use id::ProgramId;
pub use kind::ProgramKind;
pub use source::ProgramSource;
pub use status::{FailedVersion, NodeStatus};
pub use upkeep::ProgramUpkeep;

pub(crate) use handle::programs_map;
#[cfg(test)]
pub(crate) use record::VersionRecord;
pub(crate) use record::{Active, ProgramRecord};
pub(crate) use source::{SOURCE_OBJECT_PREFIX, fetch_source};
pub(crate) use status::{
    ReportOrder, StatusReport, not_active, report_order_key, status_key, status_key_prefix,
    status_map,
};
