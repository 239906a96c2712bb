//! The binding of libcephfs' C interface: the only unsafe code of the crate.
//!
//! Its public functions are safe. They return libcephfs' own statuses: a number from 0 up, or a
//! negative errno. Ceph 16 and later have all functions used here, as `cephfs/libcephfs.h` declares
//! them.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use nacre_object::{Error, Result};

/// The library's name, with the version of its interface.
const NAME: &str = "libcephfs.so.2";
/// How many bytes of names one call may return; a name has at most 255 bytes.
const NAMES_BYTES: usize = 64 << 10;
/// `open` for writing, and fail if the file exists.
pub const CREATE_EXCLUSIVE: c_int = 0o301;
/// `open` for reading.
pub const READ: c_int = 0;

/// A pointer such as `struct ceph_mount_info *`, to a structure that only libcephfs knows.
type Handle = *mut c_void;

macro_rules! functions {
    ($(fn $name:ident($($argument:ty),* $(,)?) $(-> $answer:ty)?;)+) => {
        /// The functions of libcephfs.
        struct Library {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $answer)?,)+
        }

        impl Library {
            fn resolve(library: &libloading::Library) -> Result<Self, libloading::Error> {
                // SAFETY: each symbol has the type that libcephfs.h gives to it. The pointers stay valid because the
                // library is never unloaded (see `load`).
                unsafe {
                    Ok(Self { $($name: *library.get(concat!(stringify!($name), "\0").as_bytes())?,)+ })
                }
            }
        }
    };
}

functions! {
    fn ceph_create(*mut Handle, *const c_char) -> c_int;
    fn ceph_conf_read_file(Handle, *const c_char) -> c_int;
    fn ceph_conf_set(Handle, *const c_char, *const c_char) -> c_int;
    fn ceph_select_filesystem(Handle, *const c_char) -> c_int;
    fn ceph_mount(Handle, *const c_char) -> c_int;
    fn ceph_unmount(Handle) -> c_int;
    fn ceph_release(Handle) -> c_int;
    fn ceph_mkdirs(Handle, *const c_char, c_int) -> c_int;
    fn ceph_setxattr(Handle, *const c_char, *const c_char, *const c_void, usize, c_int) -> c_int;
    fn ceph_open(Handle, *const c_char, c_int, c_int) -> c_int;
    fn ceph_close(Handle, c_int) -> c_int;
    fn ceph_opendir(Handle, *const c_char, *mut Handle) -> c_int;
    fn ceph_getdnames(Handle, Handle, *mut c_char, c_int) -> c_int;
    fn ceph_closedir(Handle, Handle) -> c_int;
    fn ceph_mds_command(
        Handle, *const c_char, *mut *const c_char, usize, *const c_char, usize,
        *mut *mut c_char, *mut usize, *mut *mut c_char, *mut usize,
    ) -> c_int;
    fn ceph_buffer_free(*mut c_char);
}

impl Library {
    /// The library, loaded on first use and kept until the process ends.
    fn load() -> Result<&'static Self> {
        static LOADED: OnceLock<Library> = OnceLock::new();
        match LOADED.get() {
            Some(library) => Ok(library),
            None => Self::open().map(|library| LOADED.get_or_init(|| library)),
        }
    }

    fn open() -> Result<Self> {
        let missing = |error: libloading::Error| {
            Error::unsupported(format!("CephFS's client library cannot be used: {error}"))
                .hint(format!("install {NAME}, in Debian the package libcephfs2"))
        };
        // SAFETY: loading runs the initialisers of libcephfs, as linking with it would.
        let library = unsafe { libloading::Library::new(NAME) }.map_err(missing)?;
        let functions = Self::resolve(&library).map_err(missing)?;
        // Never unloaded: the functions are pointers into it.
        std::mem::forget(library);
        Ok(functions)
    }
}

/// A client of a file system. Dropping it unmounts the file system, if it was mounted, and releases
/// the client.
pub struct Mount {
    library: &'static Library,
    handle: Handle,
    is_mounted: bool,
}

// SAFETY: a mount of libcephfs may be used from any thread, by several at once.
unsafe impl Send for Mount {}
// SAFETY: as above.
unsafe impl Sync for Mount {}

impl Mount {
    /// A client that has mounted nothing yet.
    ///
    /// # Errors
    /// `Unsupported` if libcephfs is not installed. The inner error is libcephfs' status.
    pub fn new(user: &CStr) -> Result<Result<Self, i32>> {
        let library = Library::load()?;
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` is written only on success.
        let status = unsafe { (library.ceph_create)(&mut handle, user.as_ptr()) };
        Ok(check(status).map(|_| Self { library, handle, is_mounted: false }))
    }

    /// Reads the configuration: this file, or wherever Ceph's clients look.
    pub fn read_configuration(&self, file: Option<&CStr>) -> Result<i32, i32> {
        let path = file.map_or(ptr::null(), CStr::as_ptr);
        // SAFETY: null stands for the usual places.
        check(unsafe { (self.library.ceph_conf_read_file)(self.handle, path) })
    }

    /// Sets an option of the client, before it mounts.
    pub fn set(&self, option: &CStr, value: &CStr) -> Result<i32, i32> {
        // SAFETY: libcephfs copies both.
        check(unsafe { (self.library.ceph_conf_set)(self.handle, option.as_ptr(), value.as_ptr()) })
    }

    /// Mounts the file system of this name.
    pub fn mount(&mut self, file_system: &CStr) -> Result<i32, i32> {
        // SAFETY: libcephfs copies the name; a null root stands for the file system's.
        let status = unsafe {
            check((self.library.ceph_select_filesystem)(self.handle, file_system.as_ptr()))?;
            (self.library.ceph_mount)(self.handle, ptr::null())
        };
        self.is_mounted = status >= 0;
        check(status)
    }

    /// Makes a directory and those above it.
    pub fn make_directories(&self, path: &CStr, mode: i32) -> Result<i32, i32> {
        // SAFETY: the path is only read.
        check(unsafe { (self.library.ceph_mkdirs)(self.handle, path.as_ptr(), mode) })
    }

    /// Sets an extended attribute.
    pub fn set_attribute(&self, path: &CStr, name: &CStr, value: &[u8]) -> Result<i32, i32> {
        let (path, name) = (path.as_ptr(), name.as_ptr());
        let start = value.as_ptr().cast();
        // SAFETY: libcephfs reads only this many bytes of the value.
        check(unsafe {
            (self.library.ceph_setxattr)(self.handle, path, name, start, value.len(), 0)
        })
    }

    /// Opens a file and closes it.
    pub fn open_and_close(&self, path: &CStr, flags: i32, mode: i32) -> Result<i32, i32> {
        // SAFETY: the path is only read, and the file is open until it is closed.
        unsafe {
            let file = check((self.library.ceph_open)(self.handle, path.as_ptr(), flags, mode))?;
            check((self.library.ceph_close)(self.handle, file))
        }
    }

    /// The names in a directory, `.` and `..` among them.
    pub fn names(&self, path: &CStr) -> Result<Vec<String>, i32> {
        let mut listing = ptr::null_mut();
        // SAFETY: `listing` is written only on success.
        check(unsafe { (self.library.ceph_opendir)(self.handle, path.as_ptr(), &mut listing) })?;
        let mut names = vec![];
        let mut buffer = vec![0_u8; NAMES_BYTES];
        let outcome = loop {
            let (start, length) = (buffer.as_mut_ptr().cast(), NAMES_BYTES as c_int);
            // SAFETY: libcephfs writes at most so many bytes.
            let status =
                unsafe { (self.library.ceph_getdnames)(self.handle, listing, start, length) };
            match check(status) {
                Ok(0) => break Ok(names),
                Ok(written) => names.extend(split_names(&buffer[..written as usize])),
                Err(status) => break Err(status),
            }
        };
        // SAFETY: the listing is open, and not used any more.
        unsafe { (self.library.ceph_closedir)(self.handle, listing) };
        outcome
    }

    /// Sends a command to an MDS, and waits. Returns the output of the command.
    pub fn ask_mds(&self, mds: &CStr, command: &CStr) -> Result<Vec<u8>, i32> {
        let mut commands = [command.as_ptr()];
        let (mut output, mut text) = (ptr::null_mut(), ptr::null_mut());
        let (mut length, mut text_length) = (0, 0);
        // SAFETY: libcephfs writes buffers of its own to the places.
        let status = unsafe {
            (self.library.ceph_mds_command)(
                self.handle,
                mds.as_ptr(),
                commands.as_mut_ptr(),
                commands.len(),
                ptr::null(),
                0,
                &mut output,
                &mut length,
                &mut text,
                &mut text_length,
            )
        };
        let answer = self.take(output, length);
        self.take(text, text_length);
        check(status).map(|_| answer)
    }

    /// Copies a buffer of libcephfs, and frees the buffer.
    fn take(&self, start: *mut c_char, length: usize) -> Vec<u8> {
        if start.is_null() {
            return vec![];
        }
        // SAFETY: the buffer has so many bytes, and is freed once, afterwards.
        unsafe {
            let copy = std::slice::from_raw_parts(start.cast::<u8>(), length).to_vec();
            (self.library.ceph_buffer_free)(start);
            copy
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // SAFETY: nobody else has the handle any more.
        unsafe {
            if self.is_mounted {
                (self.library.ceph_unmount)(self.handle);
            }
            (self.library.ceph_release)(self.handle);
        }
    }
}

impl std::fmt::Debug for Mount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mount").field("is_mounted", &self.is_mounted).finish_non_exhaustive()
    }
}

fn check(status: c_int) -> Result<i32, i32> {
    if status < 0 { Err(status) } else { Ok(status) }
}

/// Names that end with a zero byte each.
fn split_names(bytes: &[u8]) -> impl Iterator<Item = String> {
    let names = bytes.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names.map(|name| String::from_utf8_lossy(name).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_with_a_zero_byte() {
        assert_eq!(split_names(b".\0..\0a\0").collect::<Vec<_>>(), [".", "..", "a"]);
    }
}
