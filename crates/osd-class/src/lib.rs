//! Runs transactions and class methods inside the OSDs of a Ceph cluster. The engine in the crate
//! `rados` calls it.
//!
//! An OSD loads `libcls_nacre.so`, which is this crate with its feature `plugin`. A client sends a
//! whole transaction as the input of one method call. The transaction runs next to the object, over
//! a [`View`] of the OSD's class API (an [`OsdObject`]), with the same classes as on every engine.
//! [`OsdClass`] is everything except the binding to Ceph, and also runs without Ceph over any
//! `OsdObject`.
//!
//! `nacre/v1/osd.proto` defines the messages, and `nacre_rados_layout` defines how an object is
//! stored in RADOS.
//!
//! **Invariants:**
//! - A transaction only reads until it has succeeded as a whole. Then the class gives its changes
//!   to the OSD, which applies all of them or none.
//! - If a request fails for any reason except an error of the OSD, the call itself succeeds, and
//!   its answer contains the error. Otherwise the error would not reach the client. Such a call
//!   changes nothing.
//! - No request of a client can end the OSD. Input is decoded within bounds, programs run within
//!   budgets, and a panic ends only its own call.

mod attributes;
mod change;
mod classes;
mod fault_capture;
mod last_entry;
mod map;
mod object_info;
mod osd_class;
mod osd_object;
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
