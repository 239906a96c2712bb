//! Programs: versioned policy sources for hooks. Stores, activates and propagates them.
//!
//! - The source of a version is an immutable object `program/DIGEST` of the system pool.
//! - An entry of the map `programs` says for each program which versions it has and which is active
//!   ([`record`]). So activation and rollback are one commit.
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
