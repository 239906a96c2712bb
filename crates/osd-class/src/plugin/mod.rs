//! The library that an OSD loads: the C entry points, and one [`OsdClass`] for the whole OSD
//! process.
//!
//! An OSD calls [`__cls_init`] once, when it loads the library. It calls the methods from its
//! worker threads, several at a time, but never two that write the same object.
//!
//! **Invariant:** no panic leaves this module. The class API is C++ and may change between versions
//! of Ceph. So the library registers no methods in an OSD whose version differs from the one that
//! the shim was compiled for, and writes the reason to the OSD's log.

#![allow(unsafe_code, reason = "this is the border to Ceph; see the SAFETY comments")]

mod ffi;
mod osd_log;

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use nacre_clock::SystemClock;

use crate::{Mode, OsdClass};
use ffi::{CallContext, RawBytes, Sink};
use osd_log::{ERROR, OsdLog};

/// The version of Ceph that the shim was compiled for. The commands `nacre ceph` find the version in
/// the library file by the prefix of this string.
static BUILT_FOR: &str = concat!("nacre-built-for-ceph:", env!("NACRE_CEPH_VERSION"));
const EIO: c_int = 5;

static CLASS: OnceLock<OsdClass> = OnceLock::new();

/// Called by the OSD once it has loaded the library.
#[unsafe(no_mangle)]
pub extern "C" fn __cls_init() {
    if catch_unwind(initialise).is_err() {
        ffi::log(ERROR, "the class could not be set up: a panic; it offers no methods");
    }
}

fn initialise() {
    // Read the text from the library at run time, so that the compiler does not replace it by a
    // constant.
    let built_for = std::hint::black_box(BUILT_FOR);
    let built_for = built_for.split_once(':').map_or("", |(_, version)| version);
    let running = ffi::ceph_version();
    if running != built_for {
        let text = format!(
            "this is Ceph {running}, but libcls_nacre.so was built for {built_for}: it offers no \
             methods; build it on a host with this Ceph by `make ceph-plugin`"
        );
        return ffi::log(ERROR, &text);
    }
    match OsdClass::new(Arc::new(SystemClock::default()), Arc::new(OsdLog)) {
        Ok(class) => {
            let _ = CLASS.set(class);
            ffi::register();
        }
        Err(error) => ffi::log(ERROR, &format!("the class could not be set up: {error}")),
    }
}

/// Runs one call; `context` is the OSD's context of that call.
///
/// # Safety
/// `context` and `input` must be the values that the OSD passed to the method, and `sink` must
/// accept `place`.
#[unsafe(no_mangle)]
unsafe extern "C" fn nacre_osd_call(
    mode: c_int,
    context: CallContext,
    input: RawBytes,
    sink: Sink,
    place: *mut std::ffi::c_void,
) -> c_int {
    let mode = if mode == ffi::INSPECT { Mode::Inspect } else { Mode::Submit };
    // SAFETY: the caller's promise.
    let input = Bytes::copy_from_slice(unsafe { input.as_slice() });
    // After a panic, the OSD drops the operation, and the thread's Lua VM is dropped, too. So
    // nothing half-done remains.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let class = CLASS.get().ok_or(-EIO)?;
        // SAFETY: the context is used during the call only.
        let mut object = unsafe { ffi::CalledObject::new(context) };
        class.call(mode, input, &mut object).map_err(|error| {
            ffi::log(ERROR, &format!("the OSD did not take in a change: {error}"));
            error.status()
        })
    }));
    match outcome {
        Ok(Ok(output)) => {
            // SAFETY: the sink copies what it is given.
            unsafe { sink(place, RawBytes::of(&[]), RawBytes::of(&output)) };
            0
        }
        Ok(Err(status)) => status,
        Err(_) => {
            ffi::log(ERROR, "a call ended in a panic; the operation failed");
            -EIO
        }
    }
}
