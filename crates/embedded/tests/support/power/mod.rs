//! A disk whose power can be cut, for tests of the engine and its tables. It is an in-memory file
//! system mounted with FUSE.
//!
//! It promises the least that POSIX allows, which is less than any real file system promises:
//!
//! - the bytes and the length of a file survive once the *file* was synced;
//! - the creation, move or removal of a name survives once its *folder* was synced, even if the
//!   file's content does not; a move within a folder happens wholly or not at all;
//! - each unsynced sector, length and name survives or not by chance, in whatever order they were
//!   written.
//!
//! So an engine that is safe here is safe on ext4, xfs and the like. The disk counts its calls. At
//! any call the power can be cut, or the call can fail, be cut short, or find the disk full.

#![allow(dead_code, unused_imports, reason = "each test uses its part")]

mod mount;
mod pages;
mod volume;

pub use mount::PowerDisk;
pub use volume::{Fault, Plan};
