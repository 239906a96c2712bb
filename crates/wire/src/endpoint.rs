//! Where a node listens. **Invariant:** nothing beyond this machine, as long as sessions are not
//! authenticated.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use nacre_object::{Error, Result};

use crate::limits::MAX_SOCKET_PATH_BYTES;

/// An address on this machine. Written `unix:PATH` or `HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint(Address);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Address {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

impl Endpoint {
    /// A Unix socket.
    ///
    /// # Errors
    /// `Invalid` if the path is empty or longer than the kernel takes.
    pub fn unix(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let bytes = path.as_os_str().as_bytes().len();
        if bytes == 0 || bytes > MAX_SOCKET_PATH_BYTES {
            return Err(Error::invalid(format!("a socket path of {bytes} bytes: {path:?}"))
                .hint(format!("the kernel takes 1 to {MAX_SOCKET_PATH_BYTES} bytes")));
        }
        Ok(Self(Address::Unix(path)))
    }

    /// A loopback TCP address; port 0 lets the machine choose one when listening.
    ///
    /// # Errors
    /// `Unsupported` for any other address.
    pub fn tcp(address: SocketAddr) -> Result<Self> {
        if !address.ip().is_loopback() {
            return Err(Error::unsupported(format!("{address} is not on this machine"))
                .hint("sessions are not encrypted yet: use a loopback address or a Unix socket"));
        }
        Ok(Self(Address::Tcp(address)))
    }

    /// The path, if it is a Unix socket.
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            Address::Unix(path) => Some(path),
            Address::Tcp(_) => None,
        }
    }

    pub(crate) fn address(&self) -> &Address {
        &self.0
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(address) => write!(f, "{address}"),
        }
    }
}

impl FromStr for Endpoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Self::unix(path);
        }
        let local = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
        if let Some(port) = local {
            return Self::tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
        }
        let address = text.parse().map_err(|_| {
            Error::invalid(format!("{text:?} is not an endpoint"))
                .hint("write unix:PATH or 127.0.0.1:PORT")
        })?;
        Self::tcp(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nacre_object::ErrorKind;

    #[test]
    fn what_is_written_is_read_back() {
        for text in ["unix:/run/nacre.sock", "127.0.0.1:7000", "[::1]:7000", "127.3.2.1:1"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        assert_eq!("localhost:80".parse::<Endpoint>().unwrap().to_string(), "127.0.0.1:80");
    }

    #[test]
    fn only_this_machine_can_be_named() {
        let kind = |text: &str| text.parse::<Endpoint>().unwrap_err().kind();
        assert_eq!(kind("0.0.0.0:7000"), ErrorKind::Unsupported);
        assert_eq!(kind("10.0.0.1:7000"), ErrorKind::Unsupported);
        assert_eq!(kind("example.org:7000"), ErrorKind::Invalid);
        assert_eq!(kind("unix:"), ErrorKind::Invalid);
        assert_eq!(
            kind(&format!("unix:/{}", "x".repeat(MAX_SOCKET_PATH_BYTES))),
            ErrorKind::Invalid
        );
    }
}
