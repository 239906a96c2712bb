//! The TLS of both ends: mutual TLS 1.3 with certificates of the cluster's authority.

use std::fmt;
use std::io;
use std::sync::Arc;

use nacre_object::{EntityName, Error, Peer, Result};
use tokio::io::AsyncBufReadExt;
use tokio::net::TcpStream;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use super::bundle::fingerprint;
use super::handshake_failure::explained;
use super::{ENTITY_URI, Identity, NODE_SERVER_NAME};

/// The only protocol inside TLS: HTTP/2.
const ALPN: &[u8] = b"h2";

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn unusable(error: impl fmt::Display) -> Error {
    Error::invalid(format!("the identity cannot be used for TLS: {error}"))
        .hint("make another identity file with `nacre entity add NAME`")
}

fn roots(identity: &Identity) -> Result<Arc<RootCertStore>> {
    let mut roots = RootCertStore::empty();
    roots.add(identity.authority()?).map_err(unusable)?;
    Ok(Arc::new(roots))
}

/// Accepts connections of clients whose certificates the authority issued.
#[derive(Clone)]
pub(crate) struct Acceptor(TlsAcceptor);

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acceptor(…)")
    }
}

impl Acceptor {
    /// # Errors
    /// `Invalid` for an identity that cannot be used.
    pub(crate) fn new(identity: &Identity) -> Result<Self> {
        let clients = WebPkiClientVerifier::builder_with_provider(roots(identity)?, provider())
            .build()
            .map_err(unusable)?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(unusable)?
            .with_client_cert_verifier(clients)
            .with_single_cert(vec![identity.certificate()?], identity.key()?)
            .map_err(unusable)?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        // A session lasts for hours, so TLS session resumption saves nothing. Without resumption,
        // every client sends its certificate on every connection.
        config.send_tls13_tickets = 0;
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    /// Performs the handshake with a client. Returns which entity the client is.
    ///
    /// # Errors
    /// `Unavailable` if the client closed the connection. An error of another kind if the client's
    /// messages or certificate are not acceptable.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
    ) -> Result<(server::TlsStream<TcpStream>, Peer)> {
        let stream = self.0.accept(stream).await.map_err(|error| match error.kind() {
            // What rustls makes of what the client sent.
            io::ErrorKind::InvalidData => {
                Error::denied(format!("the TLS handshake failed: {error}"))
                    .hint("check that the identity file is of this cluster and not revoked")
            }
            _ => Error::unavailable(format!("the TLS handshake failed: {error}")),
        })?;
        let peer = peer(stream.get_ref().1.peer_certificates())?;
        Ok((stream, peer))
    }
}

/// Connects with a certificate that the authority issued.
#[derive(Clone)]
pub(crate) struct Connector(TlsConnector);

impl Connector {
    /// # Errors
    /// `Invalid` for an identity that cannot be used.
    pub(crate) fn new(identity: &Identity) -> Result<Self> {
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(unusable)?
            .with_root_certificates(roots(identity)?)
            .with_client_auth_cert(vec![identity.certificate()?], identity.key()?)
            .map_err(unusable)?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.resumption = rustls::client::Resumption::disabled();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Performs the handshake with a node. Returns which entity the node is.
    ///
    /// # Errors
    /// `Denied` if the client or the node rejects the other's certificate; `Unavailable` if the
    /// peer is not a node.
    pub(crate) async fn connect(
        &self,
        stream: TcpStream,
    ) -> Result<(client::TlsStream<TcpStream>, EntityName)> {
        let name = ServerName::try_from(NODE_SERVER_NAME).map_err(unusable)?;
        let connected = self.0.connect(name, stream).await;
        let mut stream = connected.map_err(|error| explained(&error))?;
        // In TLS 1.3 the client finishes the handshake before the node has checked the client's
        // certificate. A node that accepts the client sends the first bytes, as HTTP/2 requires. A
        // node that rejects the client sends an alert. So the client reads before it writes:
        // otherwise a write could fail before the client has read the alert.
        stream.fill_buf().await.map_err(|error| explained(&error))?;
        let Peer::Certified { entity, .. } = peer(stream.get_ref().1.peer_certificates())? else {
            return Err(unusable("the node shows no certificate"));
        };
        Ok((stream, entity))
    }
}

fn peer(certificates: Option<&[CertificateDer<'_>]>) -> Result<Peer> {
    let shown = certificates.and_then(<[_]>::first);
    certified(shown.ok_or_else(|| {
        Error::denied("the peer has shown no certificate")
            .hint("give an identity file, which `nacre entity add` makes")
    })?)
}

/// The entity that a certificate names. The caller has verified the certificate with the authority.
///
/// # Errors
/// `Denied` if the certificate names no entity.
pub(crate) fn certified(certificate: &CertificateDer<'_>) -> Result<Peer> {
    let nobody = || {
        Error::denied("the certificate names no entity of nacre")
            .hint("use an identity file that `nacre entity add` made")
    };
    let parsed = webpki::EndEntityCert::try_from(certificate).map_err(|_| nobody())?;
    let mut names = parsed.valid_uri_names().filter_map(|uri| uri.strip_prefix(ENTITY_URI));
    let (Some(name), None) = (names.next(), names.next()) else { return Err(nobody()) };
    let entity = EntityName::new(name).map_err(|_| nobody())?;
    Ok(Peer::Certified { entity, fingerprint: fingerprint(certificate) })
}
