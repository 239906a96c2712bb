//! A compound read: it reads several parts of one object in the same state.

use std::ffi::{CStr, CString, c_int};
use std::ptr;
use std::sync::Arc;

use bytes::Bytes;

use super::cluster::c_string;
use super::io_context::IoContext;
use super::library::{Handle, Library, Time};

/// A part of an object to read. The object must exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetch {
    /// Size and time of change.
    Stat,
    /// Bytes of the data; at least one byte.
    Data {
        /// The first.
        offset: u64,
        /// The number of bytes, cut at the end of the data.
        length: usize,
    },
    /// All xattrs.
    Attributes,
    /// Some omap entries.
    Keys(Vec<Vec<u8>>),
    /// A range of omap entries. The cluster may answer fewer than asked for.
    Range {
        /// Exclusive lower bound, without a zero byte.
        after: Vec<u8>,
        /// The prefix of the keys, without a zero byte.
        prefix: Vec<u8>,
        /// The most entries.
        limit: u64,
        /// Which of the entries are needed.
        keep: Keep,
    },
}

/// Which entries of a range are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Its entries.
    All,
    /// The last of them.
    Last,
}

impl Fetch {
    /// The most bytes of data that this part can return.
    pub fn data_bytes(&self) -> usize {
        match self {
            Self::Data { length, .. } => *length,
            _ => 0,
        }
    }
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetched {
    /// For [`Fetch::Stat`].
    Stat {
        /// Bytes of the data.
        size: u64,
        /// Seconds since 1970.
        modified_seconds: i64,
    },
    /// For [`Fetch::Data`].
    Data(Bytes),
    /// For [`Fetch::Attributes`]: names and values.
    Attributes(Vec<(Bytes, Bytes)>),
    /// For [`Fetch::Keys`]: the keys that exist, with their values.
    Keys(Vec<(Bytes, Bytes)>),
    /// For [`Fetch::Range`].
    Range {
        /// The entries, in key order.
        entries: Vec<(Bytes, Bytes)>,
        /// Whether more entries follow.
        more: bool,
    },
}

/// The memory into which librados writes the result of one part.
enum Slot {
    Stat { size: u64, modified: Time },
    Data { buffer: Vec<u8>, length: usize },
    Attributes { entries: Handle },
    Keys { entries: Handle },
    Range { entries: Handle, more: u8 },
}

/// The value that librados leaves for an unanswered part. No OSD returns it as a status.
const UNANSWERED: c_int = c_int::MIN;

/// A compound read with the places for its results.
pub(super) struct ReadOperation {
    context: Arc<IoContext>,
    fetches: Vec<Fetch>,
    slots: Vec<Slot>,
    statuses: Vec<c_int>,
}

// SAFETY: the iterators are librados' own and bound to no thread.
unsafe impl Send for ReadOperation {}

impl ReadOperation {
    pub(super) fn new(context: Arc<IoContext>, fetches: Vec<Fetch>) -> Self {
        let slot = |fetch: &Fetch| match fetch {
            Fetch::Stat => Slot::Stat { size: 0, modified: 0 },
            Fetch::Data { length, .. } => {
                Slot::Data { buffer: Vec::with_capacity(*length), length: 0 }
            }
            Fetch::Attributes => Slot::Attributes { entries: ptr::null_mut() },
            Fetch::Keys(_) => Slot::Keys { entries: ptr::null_mut() },
            Fetch::Range { .. } => Slot::Range { entries: ptr::null_mut(), more: 0 },
        };
        let slots = fetches.iter().map(slot).collect();
        let statuses = vec![UNANSWERED; fetches.len()];
        Self { context, fetches, slots, statuses }
    }

    fn library(&self) -> &'static Library {
        self.context.cluster.library
    }

    /// Hands the operation to librados.
    ///
    /// # Safety
    /// `this` must be alive and unshared until librados has the operation, and must not move until
    /// the completion is called.
    pub(super) unsafe fn submit(
        this: *mut Self,
        version: Option<u64>,
        object: &CStr,
        completion: Handle,
    ) -> c_int {
        // SAFETY: the operation is released after the call that submits it, because librados copies
        // what it needs. After submitting, this code does not touch `this`, because librados'
        // thread may complete the operation at once.
        unsafe {
            let Self { context, fetches, slots, statuses } = &mut *this;
            let (library, context) = (context.cluster.library, context.handle);
            let operation = (library.rados_create_read_op)();
            if let Some(version) = version {
                (library.rados_read_op_assert_version)(operation, version);
            }
            let parts = fetches.iter().zip(slots).zip(statuses);
            for ((fetch, slot), status) in parts {
                add(library, operation, fetch, slot, status);
            }
            let status = (library.rados_aio_read_op_operate)(
                operation,
                context,
                completion,
                object.as_ptr(),
                0,
            );
            (library.rados_release_read_op)(operation);
            status
        }
    }

    /// Takes the results after the operation succeeded. Returns `None` if librados did not fill
    /// every slot: an unfilled slot looks like an empty result.
    pub(super) fn results(mut self) -> Option<Vec<Fetched>> {
        if !all_answered(&self.statuses) {
            return None;
        }
        let library = self.library();
        let slots = std::mem::take(&mut self.slots);
        Some(slots.into_iter().map(|slot| take(library, slot)).collect())
    }
}

/// Whether every part of an operation was answered, and librados understood the answer.
fn all_answered(statuses: &[c_int]) -> bool {
    statuses.iter().all(|status| *status >= 0)
}

impl Drop for ReadOperation {
    fn drop(&mut self) {
        let library = self.library();
        for slot in std::mem::take(&mut self.slots) {
            discard(library, slot);
        }
    }
}

/// Adds one part to an operation.
///
/// # Safety
/// `slot` and `status` must stay valid until the operation is done.
unsafe fn add(
    library: &Library,
    operation: Handle,
    fetch: &Fetch,
    slot: &mut Slot,
    status: &mut c_int,
) {
    // SAFETY: librados copies keys and bounds, and writes to slot and status before the completion is
    // called.
    unsafe {
        match (fetch, slot) {
            (Fetch::Stat, Slot::Stat { size, modified }) => {
                (library.rados_read_op_stat)(operation, size, modified, status);
            }
            (Fetch::Data { offset, .. }, Slot::Data { buffer, length }) => {
                let space = buffer.capacity();
                let place = buffer.as_mut_ptr().cast();
                (library.rados_read_op_read)(operation, *offset, space, place, length, status);
            }
            (Fetch::Attributes, Slot::Attributes { entries }) => {
                (library.rados_read_op_getxattrs)(operation, entries, status);
            }
            (Fetch::Keys(keys), Slot::Keys { entries }) => {
                let pointers: Vec<_> = keys.iter().map(|key| key.as_ptr().cast()).collect();
                let lengths: Vec<_> = keys.iter().map(Vec::len).collect();
                (library.rados_read_op_omap_get_vals_by_keys2)(
                    operation,
                    pointers.as_ptr(),
                    keys.len(),
                    lengths.as_ptr(),
                    entries,
                    status,
                );
            }
            (Fetch::Range { after, prefix, limit, .. }, Slot::Range { entries, more }) => {
                let (after, prefix) = (bound(after), bound(prefix));
                (library.rados_read_op_omap_get_vals2)(
                    operation,
                    after.as_ptr(),
                    prefix.as_ptr(),
                    *limit,
                    entries,
                    more,
                    status,
                );
            }
            _ => unreachable!("slots are made from the fetches"),
        }
    }
}

fn bound(key: &[u8]) -> CString {
    CString::new(key).unwrap_or_else(|_| c_string(""))
}

/// Frees what librados allocated for a slot. librados may not have filled the slot.
fn discard(library: &Library, slot: Slot) {
    // SAFETY: each iterator is librados' and ends once.
    unsafe {
        match slot {
            Slot::Attributes { entries } if !entries.is_null() => {
                (library.rados_getxattrs_end)(entries);
            }
            Slot::Keys { entries } | Slot::Range { entries, .. } if !entries.is_null() => {
                (library.rados_omap_get_end)(entries);
            }
            _ => {}
        }
    }
}

/// Takes the result from a filled slot, and frees what librados allocated for it.
fn take(library: &Library, slot: Slot) -> Fetched {
    match slot {
        Slot::Stat { size, modified } => Fetched::Stat { size, modified_seconds: modified },
        Slot::Data { mut buffer, length } => {
            let length = length.min(buffer.capacity());
            // SAFETY: librados has written so many bytes, which the capacity holds.
            unsafe { buffer.set_len(length) };
            Fetched::Data(tight(buffer))
        }
        Slot::Attributes { entries } => Fetched::Attributes(take_attributes(library, entries)),
        Slot::Keys { entries } => Fetched::Keys(take_entries(library, entries)),
        Slot::Range { entries, more } => {
            Fetched::Range { entries: take_entries(library, entries), more: more != 0 }
        }
    }
}

/// Copies the bytes if their buffer is much larger than they are.
fn tight(buffer: Vec<u8>) -> Bytes {
    if buffer.len() < buffer.capacity() / 2 {
        Bytes::copy_from_slice(&buffer)
    } else {
        Bytes::from(buffer)
    }
}

fn take_attributes(library: &Library, entries: Handle) -> Vec<(Bytes, Bytes)> {
    let mut found = Vec::new();
    if entries.is_null() {
        return found;
    }
    loop {
        let (mut name, mut value, mut length) = (ptr::null(), ptr::null(), 0);
        // SAFETY: the iterator is alive; what it points to stays until it ends.
        unsafe {
            let status =
                (library.rados_getxattrs_next)(entries, &mut name, &mut value, &mut length);
            if status < 0 || name.is_null() {
                (library.rados_getxattrs_end)(entries);
                return found;
            }
            let name = Bytes::copy_from_slice(CStr::from_ptr(name).to_bytes());
            found.push((name, copied(value, length)));
        }
    }
}

fn take_entries(library: &Library, entries: Handle) -> Vec<(Bytes, Bytes)> {
    let mut found = Vec::new();
    if entries.is_null() {
        return found;
    }
    loop {
        let (mut key, mut value) = (ptr::null_mut(), ptr::null_mut());
        let (mut key_length, mut length) = (0, 0);
        // SAFETY: as above.
        unsafe {
            let status = (library.rados_omap_get_next2)(
                entries,
                &mut key,
                &mut value,
                &mut key_length,
                &mut length,
            );
            if status < 0 || key.is_null() {
                (library.rados_omap_get_end)(entries);
                return found;
            }
            found.push((copied(key, key_length), copied(value, length)));
        }
    }
}

/// Copies bytes that belong to librados.
///
/// # Safety
/// There must be `length` bytes at `start`, unless `start` is null.
unsafe fn copied(start: *const std::ffi::c_char, length: usize) -> Bytes {
    if start.is_null() || length == 0 {
        return Bytes::new();
    }
    // SAFETY: the caller's promise.
    Bytes::copy_from_slice(unsafe { std::slice::from_raw_parts(start.cast(), length) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_with_an_unanswered_part_fails() {
        assert!(all_answered(&[0, 4096, 0]));
        assert!(!all_answered(&[0, UNANSWERED]));
        assert!(!all_answered(&[0, crate::cluster::failure::status::BROKEN]));
    }
}
