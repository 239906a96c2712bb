//! `CephFsClient`: a client that mounts a CephFS file system. It has its own session with each
//! metadata server (MDS) that it uses.
//!
//! Every method blocks until Ceph answers, so call the methods from a thread that may block.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;

use nacre_object::{Error, Result};
use nacre_rados::RadosOptions;
use serde_json::{Value, json};

use crate::counters::RankCounters;
use crate::ffi::{CREATE_EXCLUSIVE, Mount, READ};

/// The modes of what the client creates: other users may list and read it.
const DIRECTORY_MODE: i32 = 0o755;
const FILE_MODE: i32 = 0o644;

/// A client. It unmounts when it is dropped.
#[derive(Debug)]
pub struct CephFsClient {
    mount: Mount,
}

impl CephFsClient {
    /// Mounts a file system, with some of Ceph's client options set, for example
    /// `client_cache_size`.
    ///
    /// # Errors
    /// `Unsupported` if libcephfs is not installed; `Unavailable` if the cluster does not answer.
    pub fn mount(
        options: &RadosOptions,
        file_system: &str,
        settings: &[(&str, String)],
    ) -> Result<Self> {
        let failed = |status| refused("mount", file_system, status);
        let mut mount = Mount::new(&c_string(&options.user)?)?.map_err(failed)?;
        let conf = options.conf.as_ref().map(|path| bytes(path.as_os_str().as_bytes()));
        mount.read_configuration(conf.transpose()?.as_deref()).map_err(failed)?;
        for (option, value) in settings {
            let set = mount.set(&c_string(option)?, &c_string(value)?);
            set.map_err(|status| refused("set", option, status))?;
        }
        mount.mount(&c_string(file_system)?).map_err(failed)?;
        Ok(Self { mount })
    }

    /// Creates a directory and its missing parents.
    ///
    /// # Errors
    /// `Unavailable` with Ceph's reason.
    pub fn make_directories(&self, path: &str) -> Result<()> {
        let made = self.mount.make_directories(&c_string(path)?, DIRECTORY_MODE);
        made.map(drop).map_err(|status| refused("mkdir", path, status))
    }

    /// Creates an empty file, which must not exist.
    ///
    /// # Errors
    /// As [`CephFsClient::make_directories`].
    pub fn create(&self, path: &str) -> Result<()> {
        self.open_and_close("create", path, CREATE_EXCLUSIVE)
    }

    /// Opens a file for reading, and closes it.
    ///
    /// # Errors
    /// As [`CephFsClient::make_directories`].
    pub fn open(&self, path: &str) -> Result<()> {
        self.open_and_close("open", path, READ)
    }

    /// The names in a directory.
    ///
    /// # Errors
    /// As [`CephFsClient::make_directories`].
    pub fn list(&self, path: &str) -> Result<Vec<String>> {
        let listed = self.mount.names(&c_string(path)?);
        let mut names = listed.map_err(|status| refused("list", path, status))?;
        names.retain(|name| name != "." && name != "..");
        Ok(names)
    }

    /// Pins a directory and everything below it to a rank.
    ///
    /// # Errors
    /// As [`CephFsClient::make_directories`].
    pub fn pin(&self, path: &str, rank: usize) -> Result<()> {
        self.set_attribute(path, "ceph.dir.pin", &rank.to_string())
    }

    /// Makes Ceph distribute the subdirectories of a directory over all ranks, by a hash of their
    /// names.
    ///
    /// # Errors
    /// As [`CephFsClient::make_directories`].
    pub fn distribute(&self, path: &str) -> Result<()> {
        self.set_attribute(path, "ceph.dir.pin.distributed", "1")
    }

    /// The counters of an MDS since it started.
    ///
    /// # Errors
    /// As [`CephFsClient::make_directories`].
    pub fn counters(&self, mds: &str) -> Result<RankCounters> {
        let command = json!({ "prefix": "perf dump", "format": "json" }).to_string();
        let answer = self.mount.ask_mds(&c_string(mds)?, &c_string(&command)?);
        let answer = answer.map_err(|status| refused("perf dump of", mds, status))?;
        let dump: Value = serde_json::from_slice(&answer).map_err(|error| {
            Error::corrupt(format!("the answer of mds.{mds} is not JSON: {error}"))
        })?;
        Ok(RankCounters::of(&dump))
    }

    fn open_and_close(&self, what: &str, path: &str, flags: i32) -> Result<()> {
        let done = self.mount.open_and_close(&c_string(path)?, flags, FILE_MODE);
        done.map(drop).map_err(|status| refused(what, path, status))
    }

    fn set_attribute(&self, path: &str, name: &str, value: &str) -> Result<()> {
        let set = self.mount.set_attribute(&c_string(path)?, &c_string(name)?, value.as_bytes());
        set.map(drop).map_err(|status| refused(name, path, status))
    }
}

fn c_string(text: &str) -> Result<CString> {
    bytes(text.as_bytes())
}

fn bytes(bytes: &[u8]) -> Result<CString> {
    CString::new(bytes).map_err(|_| Error::invalid("a name for Ceph must not contain a zero byte"))
}

fn refused(what: &str, name: &str, status: i32) -> Error {
    let reason = std::io::Error::from_raw_os_error(status.saturating_neg());
    Error::unavailable(format!("CephFS refused {what} {name}: {reason}"))
}
