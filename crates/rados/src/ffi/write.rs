//! A compound write: changes of one object that happen in order, all or none.

use std::ffi::{CString, c_char};
use std::ptr;

use bytes::Bytes;

use super::cluster::c_string;
use super::library::{CREATE_EXCLUSIVE, CREATE_IDEMPOTENT, Handle, IS_EQUAL, Library};

/// One part of a write: a guard or a change. A change creates the object if it does not exist,
/// unless the change's own comment says that the object must exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Guard: the object exists (`ENOENT`).
    AssertExists,
    /// Guard: the object must have this version, which is not 0 (`ERANGE`, `EOVERFLOW`).
    AssertVersion(u64),
    /// Guard: the object must exist (`ENOENT`), and its xattr must have this value (`ECANCELED`).
    AssertAttribute {
        /// Its name.
        name: String,
        /// Its value.
        value: Bytes,
    },
    /// Create the object, which must not exist (`EEXIST`).
    CreateExclusive,
    /// Make it if need be.
    Create,
    /// Remove it with everything; it must exist (`ENOENT`).
    Remove,
    /// Write bytes; at least one byte.
    Write {
        /// The first goes here.
        offset: u64,
        /// The bytes.
        data: Bytes,
    },
    /// Replace the data.
    WriteFull(Bytes),
    /// Cut or extend the data. If the object does not exist, nothing happens.
    Truncate(u64),
    /// Write zeros within the data. If the object does not exist, nothing happens.
    Zero {
        /// The first.
        offset: u64,
        /// So many.
        length: u64,
    },
    /// Set an xattr.
    SetAttribute {
        /// Its name.
        name: String,
        /// Its value.
        value: Bytes,
    },
    /// Remove an xattr, which must exist (`ENODATA`).
    RemoveAttribute(String),
    /// Set omap entries.
    SetKeys(Vec<(Bytes, Bytes)>),
    /// Remove omap entries, whether they exist or not.
    RemoveKeys(Vec<Bytes>),
    /// Remove all omap entries; the object must exist (`ENOENT`).
    ClearMap,
}

impl Change {
    /// Bytes of data, keys and values that it carries.
    pub(super) fn payload_bytes(&self) -> usize {
        match self {
            Self::AssertAttribute { value, .. } | Self::SetAttribute { value, .. } => value.len(),
            Self::Write { data, .. } | Self::WriteFull(data) => data.len(),
            Self::SetKeys(entries) => {
                entries.iter().map(|(key, value)| key.len() + value.len()).sum()
            }
            Self::RemoveKeys(keys) => keys.iter().map(Bytes::len).sum(),
            _ => 0,
        }
    }
}

/// A compound write of librados. It holds copies of all data that it was given.
pub(super) struct WriteOperation {
    library: &'static Library,
    pub(super) handle: Handle,
}

impl WriteOperation {
    pub(super) fn new(library: &'static Library, changes: &[Change]) -> Self {
        // SAFETY: makes an empty operation.
        let handle = unsafe { (library.rados_create_write_op)() };
        let operation = Self { library, handle };
        for change in changes {
            operation.add(change);
        }
        operation
    }

    fn add(&self, change: &Change) {
        let (library, handle) = (self.library, self.handle);
        // SAFETY: the operation is alive, and librados copies what it is pointed to.
        unsafe {
            match change {
                Change::AssertExists => (library.rados_write_op_assert_exists)(handle),
                Change::AssertVersion(version) => {
                    (library.rados_write_op_assert_version)(handle, *version);
                }
                Change::AssertAttribute { name, value } => {
                    let (name, length) = (c_string(name), value.len());
                    let compare = library.rados_write_op_cmpxattr;
                    compare(handle, name.as_ptr(), IS_EQUAL, start(value), length);
                }
                Change::CreateExclusive => {
                    (library.rados_write_op_create)(handle, CREATE_EXCLUSIVE, ptr::null());
                }
                Change::Create => {
                    (library.rados_write_op_create)(handle, CREATE_IDEMPOTENT, ptr::null());
                }
                Change::Remove => (library.rados_write_op_remove)(handle),
                Change::Write { offset, data } => {
                    (library.rados_write_op_write)(handle, start(data), data.len(), *offset);
                }
                Change::WriteFull(data) => {
                    (library.rados_write_op_write_full)(handle, start(data), data.len());
                }
                Change::Truncate(size) => (library.rados_write_op_truncate)(handle, *size),
                Change::Zero { offset, length } => {
                    (library.rados_write_op_zero)(handle, *offset, *length);
                }
                Change::SetAttribute { name, value } => {
                    let name = c_string(name);
                    let (name, length) = (name.as_ptr(), value.len());
                    (library.rados_write_op_setxattr)(handle, name, start(value), length);
                }
                Change::RemoveAttribute(name) => {
                    let name: CString = c_string(name);
                    (library.rados_write_op_rmxattr)(handle, name.as_ptr());
                }
                Change::SetKeys(entries) => self.set_keys(entries),
                Change::RemoveKeys(keys) => self.remove_keys(keys),
                Change::ClearMap => (library.rados_write_op_omap_clear)(handle),
            }
        }
    }

    fn set_keys(&self, entries: &[(Bytes, Bytes)]) {
        let keys: Vec<_> = entries.iter().map(|(key, _)| start(key)).collect();
        let values: Vec<_> = entries.iter().map(|(_, value)| start(value)).collect();
        let key_lengths: Vec<_> = entries.iter().map(|(key, _)| key.len()).collect();
        let value_lengths: Vec<_> = entries.iter().map(|(_, value)| value.len()).collect();
        // SAFETY: as in `add`.
        unsafe {
            (self.library.rados_write_op_omap_set2)(
                self.handle,
                keys.as_ptr(),
                values.as_ptr(),
                key_lengths.as_ptr(),
                value_lengths.as_ptr(),
                entries.len(),
            );
        }
    }

    fn remove_keys(&self, keys: &[Bytes]) {
        let pointers: Vec<_> = keys.iter().map(start).collect();
        let lengths: Vec<_> = keys.iter().map(Bytes::len).collect();
        // SAFETY: as in `add`.
        unsafe {
            (self.library.rados_write_op_omap_rm_keys2)(
                self.handle,
                pointers.as_ptr(),
                lengths.as_ptr(),
                keys.len(),
            );
        }
    }
}

impl Drop for WriteOperation {
    fn drop(&mut self) {
        // SAFETY: librados keeps what it needs of an operation that was submitted.
        unsafe { (self.library.rados_release_write_op)(self.handle) }
    }
}

fn start(bytes: &Bytes) -> *const c_char {
    bytes.as_ptr().cast()
}
