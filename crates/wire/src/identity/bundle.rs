//! An identity: the key and certificate with which a client or node authenticates itself, and the
//! file that holds them.
//!
//! ```json
//! {"format": 1, "entity": "alice", "authority": "-----BEGIN CERTIFICATE-----…",
//!  "certificate": "-----BEGIN CERTIFICATE-----…", "key": "-----BEGIN PRIVATE KEY-----…"}
//! ```
//!
//! Other modules may add fields. For example, a client's file also lists the cluster's nodes.

use std::fmt;

use nacre_object::{EntityName, Error, FINGERPRINT_BYTES, Result};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The format this release reads and writes.
const FORMAT: u32 = 1;

/// A key, a certificate that says whose key it is, and the certificate of the authority, which
/// verifies the certificates of peers.
#[derive(Clone)]
pub struct Identity {
    entity: EntityName,
    file: File,
}

/// The file, as it is written.
#[derive(Clone, Serialize, Deserialize)]
struct File {
    format: u32,
    entity: String,
    authority: String,
    certificate: String,
    key: String,
}

/// Without the key.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("entity", &self.entity).finish_non_exhaustive()
    }
}

impl Identity {
    pub(super) fn new(
        entity: EntityName,
        authority: String,
        certificate: String,
        key: String,
    ) -> Result<Self> {
        let name = entity.to_string();
        let identity = Self {
            entity,
            file: File { format: FORMAT, entity: name, authority, certificate, key },
        };
        identity.certificate()?;
        identity.key()?;
        identity.authority()?;
        Ok(identity)
    }

    /// Parses the output of [`Identity::to_json`].
    ///
    /// # Errors
    /// `Invalid` if the bytes are not an identity file, `Unsupported` if another release wrote the
    /// file in another format.
    pub fn parse(json: &[u8]) -> Result<Self> {
        let file: File = serde_json::from_slice(json).map_err(|error| {
            Error::invalid(format!(
                "an identity file must be a JSON object of a certain form: {error}"
            ))
            .hint("make another with `nacre entity add NAME`")
        })?;
        if file.format != FORMAT {
            let format = file.format;
            return Err(Error::unsupported(format!(
                "the identity file has format {format}, this release reads {FORMAT}"
            ))
            .hint("use the release that wrote it, or a later one"));
        }
        Self::new(EntityName::new(&file.entity)?, file.authority, file.certificate, file.key)
    }

    /// The identity as a JSON object. It holds the private key.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(&self.file).expect("a file has nothing JSON lacks")
    }

    /// The entity of this identity.
    pub fn entity(&self) -> &EntityName {
        &self.entity
    }

    /// SHA-256 of its certificate.
    pub fn fingerprint(&self) -> [u8; FINGERPRINT_BYTES] {
        self.certificate().map(|der| fingerprint(&der)).expect("checked when it was made")
    }

    pub(crate) fn certificate(&self) -> Result<CertificateDer<'static>> {
        certificate(&self.file.certificate, "certificate")
    }

    pub(super) fn authority(&self) -> Result<CertificateDer<'static>> {
        certificate(&self.file.authority, "authority")
    }

    pub(super) fn key(&self) -> Result<PrivateKeyDer<'static>> {
        PrivateKeyDer::from_pem_slice(self.file.key.as_bytes()).map_err(|error| {
            Error::invalid(format!("the key in the identity file cannot be used: {error}"))
                .hint("make another with `nacre entity add NAME`")
        })
    }
}

fn certificate(pem: &str, what: &str) -> Result<CertificateDer<'static>> {
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|error| {
        Error::invalid(format!("the {what} in the identity file cannot be used: {error}"))
            .hint("make another with `nacre entity add NAME`")
    })
}

/// The fingerprint by which a certificate is recognized.
pub(super) fn fingerprint(certificate: &CertificateDer<'_>) -> [u8; FINGERPRINT_BYTES] {
    let mut fingerprint = [0; FINGERPRINT_BYTES];
    fingerprint.copy_from_slice(digest(&SHA256, certificate).as_ref());
    fingerprint
}
