//! A plain client of RADOS: just enough of librados' C interface, loaded at run time.

#![allow(unsafe_code, reason = "librados is C; handles are made, used and freed in this file")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use libloading::{Library, Symbol};

type Handle = *mut c_void;
/// Lets an operation that changes something answer an output.
const RETURNVEC: c_int = 1024;

/// A connection, and a pool opened on it.
pub struct Client {
    library: Library,
    cluster: Handle,
    pool: Handle,
}

// SAFETY: librados is made for use by several threads.
unsafe impl Send for Client {}
// SAFETY: as above.
unsafe impl Sync for Client {}

/// What an operation answered.
#[derive(Debug)]
pub struct Answer {
    /// Zero or positive, or a negated errno.
    pub status: i32,
    /// The method's output.
    pub output: Vec<u8>,
    /// The object's version, as RADOS tells it.
    pub version: u64,
}

/// An operation under way.
pub struct Pending {
    client: Arc<Client>,
    completion: Handle,
    operation: Operation,
    result: Box<MethodResult>,
}

enum Operation {
    Read(Handle),
    Write(Handle),
}

/// Where librados puts what a method answered.
struct MethodResult {
    output: *mut c_char,
    length: usize,
    status: c_int,
}

impl Client {
    /// Connects as the administrator of a cluster.
    pub fn connect(conf: &Path, pool: &str) -> Arc<Self> {
        // SAFETY: librados' initialisers do nothing but initialise.
        let library = unsafe { Library::new("librados.so.2") }.expect("librados2 is installed");
        let mut client = Self { library, cluster: ptr::null_mut(), pool: ptr::null_mut() };
        let conf = CString::new(conf.to_str().unwrap()).unwrap();
        let pool = CString::new(pool).unwrap();
        let (mut cluster, mut opened) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: signatures are those of librados.h; the places and texts are alive.
        unsafe {
            let create: Symbol<unsafe extern "C" fn(*mut Handle, *const c_char) -> c_int> =
                client.symbol("rados_create");
            assert_eq!(create(&mut cluster, c"admin".as_ptr()), 0);
            let read: Symbol<unsafe extern "C" fn(Handle, *const c_char) -> c_int> =
                client.symbol("rados_conf_read_file");
            assert_eq!(read(cluster, conf.as_ptr()), 0);
            let connect: Symbol<unsafe extern "C" fn(Handle) -> c_int> =
                client.symbol("rados_connect");
            assert_eq!(connect(cluster), 0);
            let open: Symbol<unsafe extern "C" fn(Handle, *const c_char, *mut Handle) -> c_int> =
                client.symbol("rados_ioctx_create");
            assert_eq!(open(cluster, pool.as_ptr(), &mut opened), 0);
        }
        (client.cluster, client.pool) = (cluster, opened);
        Arc::new(client)
    }

    /// Works in a namespace of the pool from now on.
    pub fn enter(&self, namespace: &str) {
        let namespace = CString::new(namespace).unwrap();
        // SAFETY: as in `connect`; librados copies the name.
        unsafe {
            let enter: Symbol<unsafe extern "C" fn(Handle, *const c_char)> =
                self.symbol("rados_ioctx_set_namespace");
            enter(self.pool, namespace.as_ptr());
        }
    }

    fn symbol<T>(&self, name: &str) -> Symbol<'_, T> {
        // SAFETY: each use gives the type that librados.h gives.
        unsafe { self.library.get(name.as_bytes()) }.expect("librados has it")
    }

    /// Calls a method and waits for the answer.
    pub fn exec(self: &Arc<Self>, object: &str, class: &str, method: &str, input: &[u8]) -> Answer {
        self.begin_exec(object, class, method, input).wait()
    }

    /// Calls a method.
    pub fn begin_exec(
        self: &Arc<Self>,
        object: &str,
        class: &str,
        method: &str,
        input: &[u8],
    ) -> Pending {
        let object = CString::new(object).unwrap();
        let (class, method) = (CString::new(class).unwrap(), CString::new(method).unwrap());
        let mut result = Box::new(MethodResult { output: ptr::null_mut(), length: 0, status: 0 });
        let completion = self.completion();
        // SAFETY: as in `connect`; the result stays in its box until the operation is done.
        unsafe {
            let create: Symbol<unsafe extern "C" fn() -> Handle> =
                self.symbol("rados_create_read_op");
            let operation = create();
            type Exec = unsafe extern "C" fn(
                Handle,
                *const c_char,
                *const c_char,
                *const c_char,
                usize,
                *mut *mut c_char,
                *mut usize,
                *mut c_int,
            );
            let exec: Symbol<Exec> = self.symbol("rados_read_op_exec");
            exec(
                operation,
                class.as_ptr(),
                method.as_ptr(),
                input.as_ptr().cast(),
                input.len(),
                &mut result.output,
                &mut result.length,
                &mut result.status,
            );
            type Operate =
                unsafe extern "C" fn(Handle, Handle, Handle, *const c_char, c_int) -> c_int;
            let operate: Symbol<Operate> = self.symbol("rados_aio_read_op_operate");
            assert_eq!(operate(operation, self.pool, completion, object.as_ptr(), RETURNVEC), 0);
            let operation = Operation::Read(operation);
            Pending { client: self.clone(), completion, operation, result }
        }
    }

    /// Sets one omap entry, without any class.
    pub fn begin_omap_set(self: &Arc<Self>, object: &str, key: &str, value: &[u8]) -> Pending {
        let object = CString::new(object).unwrap();
        let completion = self.completion();
        let result = Box::new(MethodResult { output: ptr::null_mut(), length: 0, status: 0 });
        // SAFETY: as in `connect`; librados copies key and value.
        unsafe {
            let create: Symbol<unsafe extern "C" fn() -> Handle> =
                self.symbol("rados_create_write_op");
            let operation = create();
            type Set = unsafe extern "C" fn(
                Handle,
                *const *const c_char,
                *const *const c_char,
                *const usize,
                *const usize,
                usize,
            );
            let set: Symbol<Set> = self.symbol("rados_write_op_omap_set2");
            let (keys, values) = ([key.as_ptr().cast()], [value.as_ptr().cast()]);
            let (key_lengths, value_lengths) = ([key.len()], [value.len()]);
            set(
                operation,
                keys.as_ptr(),
                values.as_ptr(),
                key_lengths.as_ptr(),
                value_lengths.as_ptr(),
                1,
            );
            type Operate = unsafe extern "C" fn(
                Handle,
                Handle,
                Handle,
                *const c_char,
                *mut c_void,
                c_int,
            ) -> c_int;
            let operate: Symbol<Operate> = self.symbol("rados_aio_write_op_operate");
            let (pool, time) = (self.pool, ptr::null_mut());
            assert_eq!(operate(operation, pool, completion, object.as_ptr(), time, 0), 0);
            let operation = Operation::Write(operation);
            Pending { client: self.clone(), completion, operation, result }
        }
    }

    fn completion(&self) -> Handle {
        let mut completion = ptr::null_mut();
        type Create = unsafe extern "C" fn(Handle, *mut c_void, *mut c_void, *mut Handle) -> c_int;
        // SAFETY: as in `connect`; no callbacks.
        let status = unsafe {
            let create: Symbol<Create> = self.symbol("rados_aio_create_completion");
            create(ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), &mut completion)
        };
        assert_eq!(status, 0);
        completion
    }
}

impl Pending {
    /// Waits until it is done.
    pub fn wait(self) -> Answer {
        let library = &self.client;
        // SAFETY: the completion is alive until it is released here, the result is filled.
        unsafe {
            let wait: Symbol<unsafe extern "C" fn(Handle) -> c_int> =
                library.symbol("rados_aio_wait_for_complete");
            wait(self.completion);
            let status: Symbol<unsafe extern "C" fn(Handle) -> c_int> =
                library.symbol("rados_aio_get_return_value");
            let status = status(self.completion);
            let version: Symbol<unsafe extern "C" fn(Handle) -> u64> =
                library.symbol("rados_aio_get_version");
            let version = version(self.completion);
            let release: Symbol<unsafe extern "C" fn(Handle)> = library.symbol("rados_aio_release");
            release(self.completion);
            let release_operation: Symbol<unsafe extern "C" fn(Handle)> = match self.operation {
                Operation::Read(_) => library.symbol("rados_release_read_op"),
                Operation::Write(_) => library.symbol("rados_release_write_op"),
            };
            let (Operation::Read(operation) | Operation::Write(operation)) = self.operation;
            release_operation(operation);
            let mut output = Vec::new();
            if !self.result.output.is_null() {
                let start = self.result.output.cast::<u8>();
                output.extend_from_slice(std::slice::from_raw_parts(start, self.result.length));
                let free: Symbol<unsafe extern "C" fn(*mut c_char)> =
                    library.symbol("rados_buffer_free");
                free(self.result.output);
            }
            Answer { status, output, version }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // SAFETY: nothing is under way: what is holds a handle of this client.
        unsafe {
            let close: Symbol<unsafe extern "C" fn(Handle)> = self.symbol("rados_ioctx_destroy");
            close(self.pool);
            let shutdown: Symbol<unsafe extern "C" fn(Handle)> = self.symbol("rados_shutdown");
            shutdown(self.cluster);
        }
    }
}
