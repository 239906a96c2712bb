//! The address on which a node listens.
//!
//! **Invariant:** connections without TLS stay on this machine. A Unix socket tells which user
//! connects; a loopback address does not. So a node listens on a loopback address only if its
//! configuration demands it. The node then trusts every process on the machine.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use nacre_object::{Error, Result};

use crate::limits::{MAX_HOST_BYTES, MAX_SOCKET_NAME_BYTES};
use crate::socket_path;

/// The address on which a node listens. It is written as `unix:PATH`, as `tls:HOST:PORT`, or as
/// `HOST:PORT` for a loopback address without TLS.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint(Address);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Address {
    Unix(PathBuf),
    Tcp(SocketAddr),
    /// A host's name or address, and a port.
    Tls(String, u16),
}

impl Endpoint {
    /// A Unix socket.
    ///
    /// # Errors
    /// `Invalid` if the path is empty, or its last part is too long for a socket.
    pub fn unix(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        if !socket_path::is_possible(&path) {
            return Err(Error::invalid(format!("a socket cannot be at {path:?}"))
                .hint(format!("give it a name of 1 to {MAX_SOCKET_NAME_BYTES} bytes")));
        }
        Ok(Self(Address::Unix(path)))
    }

    /// A loopback TCP address. With port 0, the kernel chooses a port when the node starts to
    /// listen.
    ///
    /// # Errors
    /// `Denied` for any other address than a loopback address, because it needs TLS.
    pub fn tcp(address: SocketAddr) -> Result<Self> {
        if !address.ip().is_loopback() {
            return Err(Error::denied(format!("{address} is not on this machine")).hint(format!(
                "beyond it mutual TLS is required: write tls:{address}; \
                               `nacre init --listen {address}` makes the certificates"
            )));
        }
        Ok(Self(Address::Tcp(address)))
    }

    /// A TCP address with mutual TLS, on any machine. With port 0, the kernel chooses a port when
    /// the node starts to listen.
    ///
    /// # Errors
    /// `Invalid` if the address is not `HOST:PORT`.
    pub fn tls(address: &str) -> Result<Self> {
        let parts = address.rsplit_once(':').and_then(|(host, port)| {
            let host =
                host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
            let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':');
            let fits = !host.is_empty() && host.len() <= MAX_HOST_BYTES && host.chars().all(named);
            Some((host, port.parse().ok()?)).filter(|_| fits)
        });
        let (host, port) = parts.ok_or_else(|| {
            Error::invalid(format!("{address:?} is not an address")).hint("write HOST:PORT")
        })?;
        Ok(Self(Address::Tls(host.to_owned(), port)))
    }

    /// The path, if it is a Unix socket.
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            Address::Unix(path) => Some(path),
            Address::Tcp(_) | Address::Tls(..) => None,
        }
    }

    /// The host's name or address, if it is reached by TLS.
    pub fn host(&self) -> Option<&str> {
        match &self.0 {
            Address::Tls(host, _) => Some(host),
            Address::Unix(_) | Address::Tcp(_) => None,
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
            Address::Tls(host, port) if host.contains(':') => write!(f, "tls:[{host}]:{port}"),
            Address::Tls(host, port) => write!(f, "tls:{host}:{port}"),
        }
    }
}

impl FromStr for Endpoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Self::unix(path);
        }
        if let Some(address) = text.strip_prefix("tls:") {
            return Self::tls(address);
        }
        let local = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
        if let Some(port) = local {
            return Self::tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
        }
        let address = text.parse().map_err(|_| {
            Error::invalid(format!("{text:?} is not an endpoint"))
                .hint("write unix:PATH, tls:HOST:PORT or 127.0.0.1:PORT")
        })?;
        Self::tcp(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MAX_SOCKET_PATH_BYTES;
    use nacre_object::ErrorKind;

    #[test]
    fn an_endpoint_can_be_printed_and_parsed() {
        for text in [
            "unix:/run/nacre.sock",
            "127.0.0.1:7000",
            "[::1]:7000",
            "127.3.2.1:1",
            "tls:storage-1.example.org:7000",
            "tls:10.0.0.1:0",
            "tls:[fe80::1]:7000",
        ] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        assert_eq!("localhost:80".parse::<Endpoint>().unwrap().to_string(), "127.0.0.1:80");
    }

    #[test]
    fn an_address_of_another_machine_needs_tls() {
        let kind = |text: &str| text.parse::<Endpoint>().unwrap_err().kind();
        assert_eq!(kind("0.0.0.0:7000"), ErrorKind::Denied);
        assert_eq!(kind("10.0.0.1:7000"), ErrorKind::Denied);
        for text in ["tls:", "tls:host", "tls::1", "tls:host:66000", "tls:a b:1", "tls:[:1"] {
            assert_eq!(kind(text), ErrorKind::Invalid, "{text}");
        }
        assert_eq!(kind("example.org:7000"), ErrorKind::Invalid);
        assert_eq!(kind("unix:"), ErrorKind::Invalid);
        assert_eq!(
            kind(&format!("unix:/folder/{}", "x".repeat(MAX_SOCKET_PATH_BYTES))),
            ErrorKind::Invalid
        );
    }
}
