//! Finds and loads librados.so.2 when a Ceph cluster is first used.
//!
//! The declarations are those of `rados/librados.h`. All functions that are used exist in Ceph 14
//! and later.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use nacre_object::{Error, Result};

use super::exit::keep_globals_while_connected;

/// The library's name, with the version of its interface.
const NAME: &str = "librados.so.2";

/// `rados_t`, `rados_ioctx_t` and the like: opaque pointers of librados.
pub type Handle = *mut c_void;
/// Seconds since 1970.
pub type Time = i64;
/// Called by librados when an operation is done.
pub type Completed = unsafe extern "C" fn(completion: Handle, argument: *mut c_void);
/// Called by librados when a watched object is notified.
pub type Notified = unsafe extern "C" fn(
    argument: *mut c_void,
    notify_id: u64,
    handle: u64,
    notifier_id: u64,
    data: *mut c_void,
    length: usize,
);
/// Called by librados when a watch broke.
pub type WatchFailed = unsafe extern "C" fn(argument: *mut c_void, cookie: u64, status: c_int);

macro_rules! functions {
    ($(fn $name:ident($($argument:ty),* $(,)?) $(-> $answer:ty)?;)+) => {
        /// The functions of librados.
        #[allow(missing_docs, reason = "librados.h documents them")]
        pub struct Library {
            $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $answer)?,)+
        }

        impl Library {
            fn resolve(library: &libloading::Library) -> Result<Self, libloading::Error> {
                // SAFETY: each symbol has the type that librados.h declares. The pointers stay
                // valid because the library is never unloaded (see `load`).
                unsafe {
                    Ok(Self { $($name: *library.get(concat!(stringify!($name), "\0").as_bytes())?,)+ })
                }
            }
        }
    };
}

functions! {
    fn rados_create(*mut Handle, *const c_char) -> c_int;
    fn rados_conf_read_file(Handle, *const c_char) -> c_int;
    fn rados_conf_parse_env(Handle, *const c_char) -> c_int;
    fn rados_conf_set(Handle, *const c_char, *const c_char) -> c_int;
    fn rados_conf_get(Handle, *const c_char, *mut c_char, usize) -> c_int;
    fn rados_connect(Handle) -> c_int;
    fn rados_shutdown(Handle);
    fn rados_mon_command(
        Handle, *const *const c_char, usize, *const c_char, usize,
        *mut *mut c_char, *mut usize, *mut *mut c_char, *mut usize,
    ) -> c_int;
    fn rados_osd_command(
        Handle, c_int, *mut *const c_char, usize, *const c_char, usize,
        *mut *mut c_char, *mut usize, *mut *mut c_char, *mut usize,
    ) -> c_int;
    fn rados_buffer_free(*mut c_char);
    fn rados_getaddrs(Handle, *mut *mut c_char) -> c_int;
    fn rados_wait_for_latest_osdmap(Handle) -> c_int;

    fn rados_ioctx_create2(Handle, i64, *mut Handle) -> c_int;
    fn rados_ioctx_get_id(Handle) -> i64;
    fn rados_ioctx_get_pool_name(Handle, *mut c_char, c_uint) -> c_int;
    fn rados_ioctx_create(Handle, *const c_char, *mut Handle) -> c_int;
    fn rados_ioctx_set_namespace(Handle, *const c_char);
    fn rados_ioctx_destroy(Handle);

    fn rados_aio_create_completion2(*mut c_void, Completed, *mut Handle) -> c_int;
    fn rados_aio_get_return_value(Handle) -> c_int;
    fn rados_aio_get_version(Handle) -> u64;
    fn rados_aio_release(Handle);

    fn rados_create_read_op() -> Handle;
    fn rados_release_read_op(Handle);
    fn rados_read_op_assert_version(Handle, u64);
    fn rados_read_op_stat(Handle, *mut u64, *mut Time, *mut c_int);
    fn rados_read_op_read(Handle, u64, usize, *mut c_char, *mut usize, *mut c_int);
    fn rados_read_op_getxattrs(Handle, *mut Handle, *mut c_int);
    fn rados_read_op_omap_get_vals2(
        Handle, *const c_char, *const c_char, u64, *mut Handle, *mut u8, *mut c_int,
    );
    fn rados_read_op_omap_get_vals_by_keys2(
        Handle, *const *const c_char, usize, *const usize, *mut Handle, *mut c_int,
    );
    fn rados_read_op_set_flags(Handle, c_int);
    fn rados_read_op_exec(
        Handle, *const c_char, *const c_char, *const c_char, usize,
        *mut *mut c_char, *mut usize, *mut c_int,
    );
    fn rados_aio_read_op_operate(Handle, Handle, Handle, *const c_char, c_int) -> c_int;
    fn rados_getxattrs_next(Handle, *mut *const c_char, *mut *const c_char, *mut usize) -> c_int;
    fn rados_getxattrs_end(Handle);
    fn rados_omap_get_next2(
        Handle, *mut *mut c_char, *mut *mut c_char, *mut usize, *mut usize,
    ) -> c_int;
    fn rados_omap_get_end(Handle);

    fn rados_create_write_op() -> Handle;
    fn rados_release_write_op(Handle);
    fn rados_write_op_assert_exists(Handle);
    fn rados_write_op_assert_version(Handle, u64);
    fn rados_write_op_cmpxattr(Handle, *const c_char, u8, *const c_char, usize);
    fn rados_write_op_create(Handle, c_int, *const c_char);
    fn rados_write_op_remove(Handle);
    fn rados_write_op_write(Handle, *const c_char, usize, u64);
    fn rados_write_op_write_full(Handle, *const c_char, usize);
    fn rados_write_op_truncate(Handle, u64);
    fn rados_write_op_zero(Handle, u64, u64);
    fn rados_write_op_setxattr(Handle, *const c_char, *const c_char, usize);
    fn rados_write_op_rmxattr(Handle, *const c_char);
    fn rados_write_op_omap_set2(
        Handle, *const *const c_char, *const *const c_char, *const usize, *const usize, usize,
    );
    fn rados_write_op_omap_rm_keys2(Handle, *const *const c_char, *const usize, usize);
    fn rados_write_op_omap_clear(Handle);
    fn rados_aio_write_op_operate(
        Handle, Handle, Handle, *const c_char, *mut Time, c_int,
    ) -> c_int;

    fn rados_aio_append(Handle, *const c_char, Handle, *const c_char, usize) -> c_int;

    fn rados_nobjects_list_open(Handle, *mut Handle) -> c_int;
    fn rados_nobjects_list_next2(
        Handle, *mut *const c_char, *mut *const c_char, *mut *const c_char,
        *mut usize, *mut usize, *mut usize,
    ) -> c_int;
    fn rados_nobjects_list_close(Handle);

    fn rados_aio_watch2(
        Handle, *const c_char, Handle, *mut u64, Notified, WatchFailed, u32, *mut c_void,
    ) -> c_int;
    fn rados_watch_check(Handle, u64) -> c_int;
    fn rados_aio_unwatch(Handle, u64, Handle) -> c_int;
    fn rados_notify_ack(Handle, *const c_char, u64, u64, *const c_char, c_int) -> c_int;
    fn rados_aio_notify(
        Handle, *const c_char, Handle, *const c_char, c_int, u64, *mut *mut c_char, *mut usize,
    ) -> c_int;
}

impl Library {
    /// Returns the library. The first call loads it; it stays loaded until the process ends,
    /// because its threads outlive every handle.
    ///
    /// # Errors
    /// `Unsupported`, with what to install, if the library is missing.
    pub fn load() -> Result<&'static Self> {
        static LOADED: OnceLock<Library> = OnceLock::new();
        match LOADED.get() {
            Some(library) => Ok(library),
            None => Self::open(NAME).map(|library| LOADED.get_or_init(|| library)),
        }
    }

    fn open(name: &str) -> Result<Self> {
        let missing = |error: libloading::Error| {
            Error::unsupported(format!("Ceph's client library cannot be used: {error}"))
                .hint(format!("install {name}, in Debian the package librados2"))
        };
        // SAFETY: loading runs the initialisers of librados, as linking with it would.
        let library = unsafe { libloading::Library::new(name) }.map_err(missing)?;
        let functions = Self::resolve(&library).map_err(missing)?;
        // Never unloaded: the functions are pointers into it.
        std::mem::forget(library);
        keep_globals_while_connected();
        Ok(functions)
    }
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(NAME)
    }
}

/// Bits of an operation's flags: fail with `ENOSPC` rather than wait while the cluster is full.
pub const FULL_TRY: c_int = 64;
/// Flag of an operation: the answer to a change contains the output of its methods.
pub const RETURN_OUTPUT: c_int = 1024;
/// Flag of one part of an operation: if the part fails, the operation does not.
pub const MAY_FAIL: c_int = 2;
/// Comparison of `rados_write_op_cmpxattr`: the stored value equals the given one.
pub const IS_EQUAL: u8 = 1;
/// Of `rados_write_op_create`: fail if the object exists.
pub const CREATE_EXCLUSIVE: c_int = 1;
/// Of `rados_write_op_create`: do not.
pub const CREATE_IDEMPOTENT: c_int = 0;

const _: () = assert!(size_of::<c_uint>() == 4, "librados counts in 32 bits");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_gives_an_error_with_what_to_install() {
        let error = Library::open("libnowhere.so.2").expect_err("there is no such library");
        assert_eq!(error.kind(), nacre_object::ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("librados2"), "{error}");
    }

    #[test]
    fn a_library_without_the_functions_is_refused() {
        let error = Library::open("libc.so.6").expect_err("it is another library");
        assert_eq!(error.kind(), nacre_object::ErrorKind::Unsupported, "{error}");
    }
}
