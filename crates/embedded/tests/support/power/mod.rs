//! A disk whose power can be cut, under the engine and its tables: a file system of the tests' own,
//! in memory, mounted with FUSE.
//!
//! What it promises is the least that POSIX allows, less than any file system keeps in practice:
//!
//! - the bytes and the length of a file survive once the *file* was synced;
//! - that a name was made, moved or removed survives once its *folder* was synced, whatever became of
//!   the file; a move within a folder happens wholly or not at all;
//! - of what was not synced each sector written, each length and each name is there or not by
//!   chance, whatever the order they came in.
//!
//! So whoever is safe here is safe on ext4, xfs and the like. Calls are counted; at any of them the
//! power can go, or the call can fail, be cut short, or find the disk full.

#![allow(dead_code, unused_imports, reason = "each test uses its part")]

mod mount;
mod pages;
mod volume;

pub use mount::PowerDisk;
pub use volume::{Fault, Plan};
