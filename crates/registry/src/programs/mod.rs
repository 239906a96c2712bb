//! Programs: versioned policy sources for hooks. This module stores, activates and distributes
//! them.
//!
//! - The source of a version is an immutable object `program/DIGEST` of the system pool.
//! - The entry of a program in the map `programs` lists its versions and says which one is active
//!   ([`record`]). So activation and rollback are one commit each.
//! - Nodes follow that map. They report which versions they made live in the map `program-status`
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
