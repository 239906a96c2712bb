//! Objects and classes inside the OSDs of a Ceph cluster.
//!
//! An OSD loads `libcls_nacre.so`, which is this crate with its feature `plugin`. A client sends a
//! whole transaction as the input of one method call; it runs next to the object, over a [`View`] of
//! what the class API of the OSD gives (an [`OsdObject`]), with the same classes as on every engine.
//! [`OsdClass`] is all of it but the border to Ceph, and runs without Ceph over any `OsdObject`.
//!
//! The messages are those of `nacre/v1/osd.proto`; how an object lies in RADOS is written down in
//! `nacre_rados_layout`.
//!
//! **Invariants.** A transaction only reads until it has succeeded as a whole; then its changes are
//! given to the OSD, which applies all of them or none. A failure that a client caused is an answer, so
//! that it reaches the client, and changes nothing. Nothing that a client sends ends the OSD: all
//! input is decoded with bounds, programs run within budgets, and a panic ends its own call only.

mod attributes;
mod change;
mod classes;
mod last_entry;
mod map;
mod object_info;
mod osd_class;
mod osd_object;
mod overheard;
#[cfg(feature = "plugin")]
mod plugin;
mod program_cache;
mod stream;
mod view;

pub use change::Change;
pub use object_info::ObjectInfo;
pub use osd_class::{Mode, OsdClass};
pub use osd_object::{OsdObject, OsdStat, StoredEntry, StoredRange};
pub use view::View;
