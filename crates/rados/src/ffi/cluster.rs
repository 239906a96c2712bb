//! A connection with a cluster.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::library::{Handle, Library};
use crate::in_flight::InFlight;

/// The longest option that is asked for: some paths.
const MAX_OPTION_BYTES: usize = 4096;

/// The number of connections for which threads of librados may run.
static CONNECTED: AtomicUsize = AtomicUsize::new(0);

/// Connections that have not come to their end.
pub(super) fn connected() -> usize {
    CONNECTED.load(Ordering::Acquire)
}

/// A connection. It ends with the last handle that uses it.
#[derive(Debug)]
pub struct Cluster {
    pub(super) library: &'static Library,
    pub(super) handle: Handle,
    /// Limits the operations in flight.
    pub(super) in_flight: InFlight,
}

// SAFETY: librados' handles may be used from any thread, by several at once.
unsafe impl Send for Cluster {}
// SAFETY: as above.
unsafe impl Sync for Cluster {}

impl Cluster {
    /// A client that is not connected yet.
    ///
    /// # Errors
    /// librados' status, as of all that follow.
    pub fn new(library: &'static Library, user: &CStr) -> Result<Self, i32> {
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` is written only on success.
        check(unsafe { (library.rados_create)(&mut handle, user.as_ptr()) })?;
        CONNECTED.fetch_add(1, Ordering::AcqRel);
        Ok(Self { library, handle, in_flight: InFlight::default() })
    }

    /// Reads the configuration: this file, or wherever Ceph's clients look.
    pub fn read_configuration(&self, file: Option<&CStr>) -> Result<(), i32> {
        let path = file.map_or(ptr::null(), CStr::as_ptr);
        // SAFETY: both take null for their usual places.
        unsafe {
            check((self.library.rados_conf_read_file)(self.handle, path))?;
            check((self.library.rados_conf_parse_env)(self.handle, ptr::null()))
        }
    }

    /// Sets an option of the client.
    pub fn set(&self, option: &CStr, value: &CStr) -> Result<(), i32> {
        // SAFETY: librados copies both.
        check(unsafe {
            (self.library.rados_conf_set)(self.handle, option.as_ptr(), value.as_ptr())
        })
    }

    /// An option of the client, as it is in force.
    pub fn get(&self, option: &CStr) -> Result<String, i32> {
        let mut value = vec![0_u8; MAX_OPTION_BYTES];
        // SAFETY: librados writes at most so many bytes, a zero at their end among them.
        check(unsafe {
            let start = value.as_mut_ptr().cast();
            (self.library.rados_conf_get)(self.handle, option.as_ptr(), start, value.len())
        })?;
        let text = CStr::from_bytes_until_nul(&value).unwrap_or_default();
        Ok(text.to_string_lossy().into_owned())
    }

    /// Connects; waits for the monitors.
    pub fn connect(&self) -> Result<(), i32> {
        // SAFETY: the handle is alive.
        check(unsafe { (self.library.rados_connect)(self.handle) })
    }

    /// Sends a command to the monitors, waits, and returns their answer.
    pub fn ask(&self, command: &str) -> Result<Vec<u8>, i32> {
        self.ask_for_reason(command).map_err(|refusal| refusal.status)
    }

    /// Like `ask`, but returns the monitors' message if they refuse the command.
    pub fn ask_for_reason(&self, command: &str) -> Result<Vec<u8>, Refusal> {
        let command = c_string(command);
        let (commands, none) = ([command.as_ptr()], ptr::null());
        // SAFETY: librados writes buffers of its own to the places.
        self.answer(|said| unsafe {
            (self.library.rados_mon_command)(
                self.handle,
                commands.as_ptr(),
                commands.len(),
                none,
                0,
                &mut said.output.start,
                &mut said.output.length,
                &mut said.text.start,
                &mut said.text.length,
            )
        })
    }

    /// Sends a command to an OSD, waits, and returns its answer.
    pub fn ask_osd(&self, osd: i32, command: &str) -> Result<Vec<u8>, i32> {
        let command = c_string(command);
        let (mut commands, none) = ([command.as_ptr()], ptr::null());
        // SAFETY: as above.
        let answer = self.answer(|said| unsafe {
            (self.library.rados_osd_command)(
                self.handle,
                osd,
                commands.as_mut_ptr(),
                commands.len(),
                none,
                0,
                &mut said.output.start,
                &mut said.output.length,
                &mut said.text.start,
                &mut said.text.length,
            )
        });
        answer.map_err(|refusal| refusal.status)
    }

    /// The address by which the cluster's daemons know this connection.
    pub fn addresses(&self) -> Result<String, i32> {
        let mut text = Buffer::default();
        // SAFETY: librados writes a buffer of its own, a string that ends with a zero byte.
        unsafe {
            check((self.library.rados_getaddrs)(self.handle, &mut text.start))?;
            text.length = CStr::from_ptr(text.start).count_bytes();
        }
        Ok(String::from_utf8_lossy(&text.take(self.library)).into_owned())
    }

    /// Waits until this client has the latest map of OSDs that the monitors have.
    pub fn wait_for_latest_map(&self) -> Result<(), i32> {
        // SAFETY: the handle is alive.
        check(unsafe { (self.library.rados_wait_for_latest_osdmap)(self.handle) })
    }

    fn answer(&self, ask: impl FnOnce(&mut Said) -> i32) -> Result<Vec<u8>, Refusal> {
        let mut said = Said::default();
        let status = ask(&mut said);
        let output = said.output.take(self.library);
        let text = String::from_utf8_lossy(&said.text.take(self.library)).into_owned();
        check(status).map(|()| output).map_err(|status| Refusal { status, text })
    }
}

/// A command that a daemon does not follow.
#[derive(Debug)]
pub struct Refusal {
    /// librados' status.
    pub status: i32,
    /// The daemon's message for people; empty if no answer came.
    pub text: String,
}

/// A daemon's answer to a command: a document, and a message for people.
#[derive(Default)]
struct Said {
    output: Buffer,
    text: Buffer,
}

/// A buffer that librados makes.
struct Buffer {
    start: *mut c_char,
    length: usize,
}

impl Default for Buffer {
    fn default() -> Self {
        Self { start: ptr::null_mut(), length: 0 }
    }
}

impl Buffer {
    /// Takes the contents and frees the buffer.
    fn take(self, library: &Library) -> Vec<u8> {
        if self.start.is_null() {
            return vec![];
        }
        // SAFETY: librados says how long its buffer is, and the buffer was not freed yet.
        unsafe {
            let bytes = std::slice::from_raw_parts(self.start.cast(), self.length).to_vec();
            (library.rados_buffer_free)(self.start);
            bytes
        }
    }
}

thread_local! {
    /// Whether this thread is librados' own, calling us.
    static CALLED_BACK: Cell<bool> = const { Cell::new(false) };
}

/// Marks the present thread as one of librados' threads, on which a connection cannot be ended.
pub(super) fn on_librados_thread() {
    CALLED_BACK.set(true);
}

/// A connection that is no longer used.
struct Unused(&'static Library, Handle);

// SAFETY: as for the cluster.
unsafe impl Send for Unused {}

impl Unused {
    fn shut_down(self) {
        // SAFETY: there is no other copy of the handle.
        unsafe { (self.0.rados_shutdown)(self.1) }
        CONNECTED.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for Cluster {
    /// Waits until librados' threads have ended, because they use globals that are destroyed when
    /// the process ends. If one of these threads drops the last handle, it cannot wait for its own
    /// end, so another thread waits.
    fn drop(&mut self) {
        let unused = Unused(self.library, self.handle);
        if CALLED_BACK.get() {
            std::thread::spawn(move || unused.shut_down());
        } else {
            unused.shut_down();
        }
    }
}

/// The status of a call that returns nothing else.
pub(super) fn check(status: i32) -> Result<(), i32> {
    if status < 0 { Err(status) } else { Ok(()) }
}

/// A string for librados. It ends at the first zero byte; checked input has none.
pub(super) fn c_string(text: &str) -> CString {
    let end = text.find('\0').unwrap_or(text.len());
    CString::new(&text[..end]).unwrap_or_default()
}
