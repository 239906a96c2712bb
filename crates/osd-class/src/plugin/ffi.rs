//! The shim's functions, and [`OsdObject`] by them.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use bytes::Bytes;
use nacre_object::{Error, ErrorKind, Result};

use crate::object_info::ObjectInfo;
use crate::osd_object::{OsdStat, StoredEntry, StoredRange};
use crate::{Change, OsdObject};

/// The mode of `inspect`, as the shim names it.
pub(super) const INSPECT: c_int = 1;
/// There is no such object or entry.
const ENOENT: c_int = 2;
/// There is no such xattr.
const ENODATA: c_int = 61;
/// The xattr that holds what the OSD keeps about the object.
const OBJECT_INFO: &CStr = c"";

/// The OSD's context of a call.
pub(super) type CallContext = *mut c_void;
/// Takes a key and a value, which are gone once it returns.
pub(super) type Sink = unsafe extern "C" fn(place: *mut c_void, key: RawBytes, value: RawBytes);

/// Borrowed bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct RawBytes {
    data: *const c_char,
    length: usize,
}

impl RawBytes {
    /// The bytes for C. They must outlive the call to which they are passed.
    pub fn of(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr().cast(), length: bytes.len() }
    }

    /// The bytes.
    ///
    /// # Safety
    /// They must be alive for `'a`.
    pub unsafe fn as_slice<'a>(self) -> &'a [u8] {
        if self.data.is_null() || self.length == 0 {
            return &[];
        }
        // SAFETY: the caller's promise; C++ gave a start and a length that belong together.
        unsafe { std::slice::from_raw_parts(self.data.cast(), self.length) }
    }
}

unsafe extern "C" {
    fn nacre_ceph_version() -> *const c_char;
    fn nacre_log(level: c_int, text: *const c_char);
    fn nacre_register() -> c_int;
    fn nacre_stat(context: CallContext, size: *mut u64, nanoseconds: *mut u64) -> c_int;
    fn nacre_current_version(context: CallContext) -> u64;
    fn nacre_read(
        context: CallContext,
        offset: c_int,
        length: c_int,
        sink: Sink,
        place: *mut c_void,
    ) -> c_int;
    fn nacre_attribute(
        context: CallContext,
        name: *const c_char,
        sink: Sink,
        place: *mut c_void,
    ) -> c_int;
    fn nacre_attributes(context: CallContext, sink: Sink, place: *mut c_void) -> c_int;
    fn nacre_entry(context: CallContext, key: RawBytes, sink: Sink, place: *mut c_void) -> c_int;
    fn nacre_range(
        context: CallContext,
        after: RawBytes,
        prefix: RawBytes,
        limit: u64,
        sink: Sink,
        place: *mut c_void,
        more: *mut bool,
    ) -> c_int;
    fn nacre_create(context: CallContext) -> c_int;
    fn nacre_remove(context: CallContext) -> c_int;
    fn nacre_write(context: CallContext, offset: c_int, data: RawBytes) -> c_int;
    fn nacre_write_full(context: CallContext, data: RawBytes) -> c_int;
    fn nacre_zero(context: CallContext, offset: c_int, length: c_int) -> c_int;
    fn nacre_truncate(context: CallContext, size: c_int) -> c_int;
    fn nacre_set_attribute(context: CallContext, name: *const c_char, value: RawBytes) -> c_int;
    fn nacre_clear_map(context: CallContext) -> c_int;
    fn nacre_set_entries(
        context: CallContext,
        keys: *const RawBytes,
        values: *const RawBytes,
        count: usize,
    ) -> c_int;
    fn nacre_remove_entry(context: CallContext, key: RawBytes) -> c_int;
}

/// The version of the Ceph that runs.
pub(super) fn ceph_version() -> String {
    // SAFETY: Ceph answers a literal.
    unsafe { CStr::from_ptr(nacre_ceph_version()) }.to_string_lossy().into_owned()
}

/// Writes a line to the log of the OSD.
pub(super) fn log(level: i32, text: &str) {
    let text = CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default();
    // SAFETY: the text is alive.
    unsafe { nacre_log(level, text.as_ptr()) }
}

/// Offers the methods to the OSD.
pub(super) fn register() {
    // SAFETY: called from `__cls_init`, as Ceph wants it.
    if unsafe { nacre_register() } < 0 {
        log(super::ERROR, "the methods could not be registered");
    }
}

/// The object that a method was called on.
pub(super) struct CalledObject {
    context: CallContext,
}

impl CalledObject {
    /// # Safety
    /// The value must not outlive the call of the context, nor leave its thread.
    pub unsafe fn new(context: CallContext) -> Self {
        Self { context }
    }

    /// Gives a change to the OSD. Offsets and sizes fit into the C types, because a byte stream is
    /// shorter than 2 GiB.
    fn change(&mut self, change: &Change) -> Result<c_int> {
        let context = self.context;
        // SAFETY: the context is of this call, and all that is pointed to outlives each function.
        let status = unsafe {
            match change {
                Change::Create => nacre_create(context),
                Change::Remove => nacre_remove(context),
                Change::WriteFull(data) => nacre_write_full(context, RawBytes::of(data)),
                Change::Write { offset, data } => {
                    nacre_write(context, narrowed(*offset)?, RawBytes::of(data))
                }
                Change::Zero { offset, length } => {
                    nacre_zero(context, narrowed(*offset)?, narrowed(*length)?)
                }
                Change::Truncate(size) => nacre_truncate(context, narrowed(*size)?),
                Change::SetAttribute { name, value } => {
                    let name = CString::new(name.as_str()).map_err(|_| {
                        Error::invalid("the name of an attribute cannot contain a zero byte")
                    })?;
                    nacre_set_attribute(context, name.as_ptr(), RawBytes::of(value))
                }
                Change::RemoveAttribute(_) => {
                    return Err(Error::unsupported("an object class cannot remove an attribute"));
                }
                Change::ClearMap => nacre_clear_map(context),
                Change::SetEntries(entries) => {
                    let keys: Vec<_> = entries.iter().map(|(key, _)| RawBytes::of(key)).collect();
                    let values: Vec<_> =
                        entries.iter().map(|(_, value)| RawBytes::of(value)).collect();
                    nacre_set_entries(context, keys.as_ptr(), values.as_ptr(), entries.len())
                }
                Change::RemoveEntry(key) => nacre_remove_entry(context, RawBytes::of(key)),
            }
        };
        Ok(status)
    }
}

impl OsdObject for CalledObject {
    fn stat(&mut self) -> Result<Option<OsdStat>> {
        let (mut size, mut nanoseconds) = (0, 0);
        // SAFETY: the context is of this call; the places are alive.
        let status = unsafe { nacre_stat(self.context, &mut size, &mut nanoseconds) };
        match status {
            status if status == -ENOENT => Ok(None),
            _ => checked(status, "stat")
                .map(|()| Some(OsdStat { size, modified_micros: nanoseconds / 1000 })),
        }
    }

    fn version(&mut self) -> Result<u64> {
        let Some(stat) = self.stat()? else {
            // The version of the placement group. It is at least as great as the version of every
            // object that was ever in the group. SAFETY: the context is the one of this call.
            return Ok(unsafe { nacre_current_version(self.context) });
        };
        let context = self.context;
        // SAFETY: as in `collect`.
        let found = collect("version", |place| unsafe {
            nacre_attribute(context, OBJECT_INFO.as_ptr(), keep, place)
        })?;
        let info = found.iter().find_map(|(_, value)| ObjectInfo::decode(value));
        match info.filter(|info| info.size == stat.size) {
            Some(info) => Ok(info.user_version),
            None => Err(Error::corrupt("the OSD keeps the object's version in an unknown form")
                .hint("check with `nacre ceph check` that nacre supports this Ceph")),
        }
    }

    fn read(&mut self, offset: u64, length: u64) -> Result<Bytes> {
        let (offset, length) = (narrowed(offset)?, narrowed(length)?);
        let context = self.context;
        // SAFETY: as in `collect`.
        let found =
            collect("read", |place| unsafe { nacre_read(context, offset, length, keep, place) })?;
        Ok(found.into_iter().next().map(|(_, value)| value).unwrap_or_default())
    }

    fn attributes(&mut self) -> Result<Vec<StoredEntry>> {
        let context = self.context;
        // SAFETY: as in `collect`.
        collect("attributes", |place| unsafe { nacre_attributes(context, keep, place) })
    }

    fn entry(&mut self, key: &[u8]) -> Result<Option<Bytes>> {
        let (context, key) = (self.context, RawBytes::of(key));
        // SAFETY: as in `collect`; the key is alive.
        let found = collect("map-get", |place| unsafe { nacre_entry(context, key, keep, place) })?;
        Ok(found.into_iter().next().map(|(_, value)| value))
    }

    fn range(&mut self, after: &[u8], prefix: &[u8], limit: usize) -> Result<StoredRange> {
        let (context, after, prefix) = (self.context, RawBytes::of(after), RawBytes::of(prefix));
        let mut more = false;
        // SAFETY: as in `collect`; bounds and `more` are alive.
        let entries = collect("map-range", |place| unsafe {
            nacre_range(context, after, prefix, limit as u64, keep, place, &mut more)
        })?;
        Ok(StoredRange { entries, more })
    }

    fn apply(&mut self, change: Change) -> Result<()> {
        let status = self.change(&change)?;
        checked(status, "commit")
    }
}

/// Collects the entries that a C function passes to [`keep`]. Returns no entries if the requested
/// data does not exist.
///
/// `ask` must call a C function with [`keep`] as the sink, its argument as the sink's `place`, and a
/// context of the running call. Memory that `ask` passes to the function must stay valid until `ask`
/// returns.
fn collect(what: &'static str, ask: impl FnOnce(*mut c_void) -> c_int) -> Result<Vec<StoredEntry>> {
    let mut found: Vec<StoredEntry> = Vec::new();
    let status = ask(ptr::from_mut(&mut found).cast());
    match status {
        status if status == -ENOENT || status == -ENODATA => Ok(vec![]),
        _ => checked(status, what).map(|()| found),
    }
}

/// The sink of [`collect`].
///
/// # Safety
/// `place` must be the one that `collect` gave.
unsafe extern "C" fn keep(place: *mut c_void, key: RawBytes, value: RawBytes) {
    // SAFETY: `place` is the vector in `collect`, which no other code accesses meanwhile. The bytes
    // stay valid until this function returns.
    unsafe {
        let found = &mut *place.cast::<Vec<StoredEntry>>();
        let [key, value] = [key, value].map(|bytes| Bytes::copy_from_slice(bytes.as_slice()));
        found.push((key, value));
    }
}

fn narrowed(number: u64) -> Result<c_int> {
    c_int::try_from(number).map_err(|_| {
        Error::invalid(format!("the offset or length {number} is too large"))
            .hint("an OSD takes offsets and lengths below 2 GiB")
    })
}

fn checked(status: c_int, what: &'static str) -> Result<()> {
    if status >= 0 {
        return Ok(());
    }
    let kind = match ErrorKind::from_errno(status.saturating_neg()) {
        ErrorKind::Fault => ErrorKind::Corrupt,
        kind => kind,
    };
    Err(Error::new(kind, format!("the OSD answered with status {status}")).during(what))
}
