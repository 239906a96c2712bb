//! The sockets on which a server listens: Unix sockets, addresses with mutual TLS, and loopback
//! addresses.
//!
//! A killed process may leave its Unix socket behind. A listener replaces such a socket, but not a
//! socket on which a process still listens. To distinguish the two cases without a race, a listener
//! holds a lock on `PATH.lock`, which the kernel releases when the process ends.

use std::fs::{File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nacre_object::{Error, ErrorKind, Result};
use tokio::net::{TcpListener, UnixListener};

use crate::Identity;
use crate::endpoint::{Address, Endpoint};
use crate::identity::Acceptor;
use crate::socket_path;

/// Sockets that are listened on.
#[derive(Debug, Default)]
pub struct Listener {
    pub(crate) sockets: Vec<Socket>,
}

#[derive(Debug)]
pub(crate) enum Socket {
    Unix(UnixListener, SocketFile),
    Tcp(TcpListener),
    Tls(TcpListener, Acceptor),
}

impl Listener {
    /// Listens on an endpoint. This function and [`Listener::and`] must be called inside a Tokio
    /// runtime.
    ///
    /// # Errors
    /// `Exists` if a process already listens on the endpoint, `Denied` if the kernel does not
    /// permit it, `Invalid` for any other failure.
    pub async fn bind(endpoint: &Endpoint) -> Result<Self> {
        Self::default().and(endpoint).await
    }

    /// Listens on one more endpoint.
    ///
    /// # Errors
    /// As [`Listener::bind`].
    pub async fn and(mut self, endpoint: &Endpoint) -> Result<Self> {
        let socket = match endpoint.address() {
            Address::Unix(path) => {
                let file = SocketFile::claim(path)?;
                let listener = socket_path::bind(path).map_err(|error| cannot(endpoint, &error))?;
                // A user who may connect is trusted like the user who runs the node.
                std::fs::set_permissions(path, Permissions::from_mode(0o600))
                    .map_err(|error| cannot(endpoint, &error))?;
                Socket::Unix(listener, file)
            }
            Address::Tcp(address) => {
                let listener = TcpListener::bind(address).await;
                Socket::Tcp(listener.map_err(|error| cannot(endpoint, &error))?)
            }
            Address::Tls(..) => {
                return Err(Error::invalid(format!(
                    "cannot listen on {endpoint} without an identity"
                ))
                .hint("listen on it with `Listener::and_tls`"));
            }
        };
        self.sockets.push(socket);
        Ok(self)
    }

    /// Also listens on an address with mutual TLS. `identity` is the identity of this node.
    ///
    /// # Errors
    /// As [`Listener::bind`]; `Invalid` if the identity cannot be used.
    pub async fn and_tls(mut self, endpoint: &Endpoint, identity: &Identity) -> Result<Self> {
        let Address::Tls(host, port) = endpoint.address() else {
            return Err(Error::invalid(format!("{endpoint} is not an address for TLS"))
                .hint("write tls:HOST:PORT"));
        };
        let listener = TcpListener::bind((host.as_str(), *port)).await;
        let listener = listener.map_err(|error| cannot(endpoint, &error))?;
        self.sockets.push(Socket::Tls(listener, Acceptor::new(identity)?));
        Ok(self)
    }

    /// Where it listens, with the ports the machine chose.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        let endpoint = |socket: &Socket| match socket {
            Socket::Unix(_, file) => Endpoint::unix(&file.path).ok(),
            Socket::Tcp(listener) => Endpoint::tcp(listener.local_addr().ok()?).ok(),
            Socket::Tls(listener, _) => {
                Endpoint::tls(&listener.local_addr().ok()?.to_string()).ok()
            }
        };
        self.sockets.iter().filter_map(endpoint).collect()
    }
}

/// The file of a Unix socket, and the right to it.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    _lock: File,
}

impl SocketFile {
    /// Takes the path, and removes a socket that a dead process left there.
    fn claim(path: &Path) -> Result<Self> {
        let shown = path.display();
        let failed = |error: io::Error| cannot(&format_args!("unix:{shown}"), &error);
        let mut lock_path = path.as_os_str().to_owned();
        lock_path.push(".lock");
        let lock = File::options()
            .create(true)
            .write(true)
            .truncate(false)
            .open(&lock_path)
            .map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::exists(format!("another process listens on unix:{shown}"))
                    .hint("stop that process, or choose another path"));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        match socket_path::probe(path) {
            Ok(()) => {
                return Err(Error::exists(format!("another process listens on unix:{shown}"))
                    .hint("stop that process, or choose another path"));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // This is a socket without a listener. Any other file at the path must not be removed.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && is_socket(path) => {
                std::fs::remove_file(path).map_err(failed)?;
            }
            Err(_) => {
                return Err(Error::exists(format!("{shown} exists and is not a socket of nacre"))
                    .hint("remove it, or choose another path"));
            }
        }
        Ok(Self { path: path.to_owned(), _lock: lock })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Ignore a failure: the next listener replaces a socket that remains. The lock file stays,
        // because another process may be about to lock it.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

fn cannot(endpoint: &dyn std::fmt::Display, error: &io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::AddrInUse => ErrorKind::Exists,
        io::ErrorKind::PermissionDenied => ErrorKind::Denied,
        _ => ErrorKind::Invalid,
    };
    Error::new(kind, format!("cannot listen on {endpoint}: {error}")).during("listen")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket_in(dir: &tempfile::TempDir) -> Endpoint {
        Endpoint::unix(dir.path().join("node.sock")).unwrap()
    }

    #[tokio::test]
    async fn a_socket_left_behind_is_replaced_but_not_one_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let endpoint = socket_in(&dir);
        // A listener of the standard library leaves its socket file behind, just as a killed
        // process does.
        drop(std::os::unix::net::UnixListener::bind(endpoint.path().unwrap()).unwrap());
        let listener = Listener::bind(&endpoint).await.unwrap();
        assert_eq!(listener.endpoints(), vec![endpoint.clone()]);
        let error = Listener::bind(&endpoint).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exists, "{error}");
        drop(listener);
        assert!(!endpoint.path().unwrap().exists());
        Listener::bind(&endpoint).await.unwrap();
    }

    #[tokio::test]
    async fn a_socket_on_which_a_process_listens_without_a_lock_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let endpoint = socket_in(&dir);
        let other = std::os::unix::net::UnixListener::bind(endpoint.path().unwrap()).unwrap();
        assert_eq!(Listener::bind(&endpoint).await.unwrap_err().kind(), ErrorKind::Exists);
        other.accept().unwrap();
        assert!(endpoint.path().unwrap().exists());
    }

    #[tokio::test]
    async fn a_socket_may_be_in_a_folder_of_any_depth() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("x".repeat(100)).join("y".repeat(100));
        std::fs::create_dir_all(&folder).unwrap();
        let endpoint = Endpoint::unix(folder.join("node.sock")).unwrap();
        let listener = Listener::bind(&endpoint).await.unwrap();
        let [Socket::Unix(accepting, _)] = &listener.sockets[..] else { panic!("one socket") };
        let path = endpoint.path().unwrap();
        let (connected, accepted) = tokio::join!(socket_path::connect(path), accepting.accept());
        let _both_ends = (connected.unwrap(), accepted.unwrap());
        assert_eq!(Listener::bind(&endpoint).await.unwrap_err().kind(), ErrorKind::Exists);
        drop(listener);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_file_that_is_no_socket_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let endpoint = socket_in(&dir);
        std::fs::write(endpoint.path().unwrap(), "precious").unwrap();
        assert_eq!(Listener::bind(&endpoint).await.unwrap_err().kind(), ErrorKind::Exists);
        assert_eq!(std::fs::read(endpoint.path().unwrap()).unwrap(), b"precious");
    }

    #[tokio::test]
    async fn a_listener_returns_the_port_that_the_kernel_chose() {
        let any = "127.0.0.1:0".parse().unwrap();
        let listener = Listener::bind(&any).await.unwrap();
        let [endpoint] = &listener.endpoints()[..] else { panic!("one endpoint") };
        assert_ne!(endpoint, &any);
        assert_eq!(Listener::bind(endpoint).await.unwrap_err().kind(), ErrorKind::Exists);
    }
}
