//! Binds and connects Unix sockets at paths of any length.
//!
//! The kernel accepts socket paths of at most [`MAX_SOCKET_PATH_BYTES`]. For a longer path, this
//! module opens the socket's folder and uses the short path `/proc/self/fd/N/NAME`. Every socket is
//! bound and connected in this module.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use tokio::net::{UnixListener, UnixStream};

use crate::limits::{MAX_SOCKET_NAME_BYTES, MAX_SOCKET_PATH_BYTES};

/// A path that is short enough for the kernel. The path is valid as long as this value lives.
struct ShortPath {
    path: PathBuf,
    /// The folder that the path goes through.
    _folder: Option<OwnedFd>,
}

impl ShortPath {
    fn of(path: &Path) -> io::Result<Self> {
        if length(path) <= MAX_SOCKET_PATH_BYTES {
            return Ok(Self { path: path.to_owned(), _folder: None });
        }
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder, flags, Mode::empty())?;
        let path = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
        Ok(Self { path, _folder: Some(folder) })
    }
}

fn length(path: &Path) -> usize {
    path.as_os_str().as_bytes().len()
}

/// Whether a socket can be at this path.
pub(crate) fn is_possible(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    let is_short = length(path) <= MAX_SOCKET_PATH_BYTES;
    length(path) > 0 && (is_short || name.len() <= MAX_SOCKET_NAME_BYTES)
}

/// Listens at a path. Must be called inside a Tokio runtime.
pub(crate) fn bind(path: &Path) -> io::Result<UnixListener> {
    UnixListener::bind(&ShortPath::of(path)?.path)
}

/// Connects to the process that listens at a path.
pub(crate) async fn connect(path: &Path) -> io::Result<UnixStream> {
    let short = ShortPath::of(path)?;
    UnixStream::connect(&short.path).await
}

/// Checks whether a process listens at a path. If not, returns the error of a failed connection.
pub(crate) fn probe(path: &Path) -> io::Result<()> {
    std::os::unix::net::UnixStream::connect(&ShortPath::of(path)?.path).map(drop)
}
