//! The authority of a cluster: the key that vouches for entities and nodes.

use nacre_object::{EntityName, Error, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};

use super::{ENTITY_URI, Identity, NODE_NAMES};

/// What a certificate is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// To connect.
    Client,
    /// To connect, and to be connected to.
    Node,
}

/// A certificate authority. Anybody who has its key can issue identities.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate_pem: String,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority(…)")
    }
}

fn unusable(error: rcgen::Error) -> Error {
    Error::invalid(format!("the authority cannot issue this certificate: {error}"))
}

/// Every authority has the same description. Only their keys differ.
fn description() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "nacre authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

impl Authority {
    /// Makes a new authority. Returns the authority and its key in PEM. Anybody who has the key can
    /// issue identities.
    ///
    /// # Errors
    /// `Invalid` if the cryptographic library cannot make keys.
    pub fn create() -> Result<(Self, String)> {
        let key = KeyPair::generate().map_err(unusable)?;
        let key_pem = key.serialize_pem();
        let certificate_pem = description().self_signed(&key).map_err(unusable)?.pem();
        Ok((Self { issuer: Issuer::new(description(), key), certificate_pem }, key_pem))
    }

    /// Loads the authority from its key and its certificate, both in PEM.
    ///
    /// # Errors
    /// `Invalid` if the key cannot be parsed.
    pub fn load(key_pem: &str, certificate_pem: String) -> Result<Self> {
        let key = KeyPair::from_pem(key_pem).map_err(unusable)?;
        Ok(Self { issuer: Issuer::new(description(), key), certificate_pem })
    }

    /// Its certificate, in PEM.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// Issues an identity: a new key and a certificate for an entity.
    ///
    /// # Errors
    /// `Invalid` if the cryptographic library cannot make keys.
    pub fn issue(&self, entity: &EntityName, usage: Usage) -> Result<Identity> {
        match usage {
            Usage::Client => self.certify(entity, usage, vec![]),
            Usage::Node => self.issue_node(entity, &[]),
        }
    }

    /// Issues the identity of a node: a new key and a certificate for all of the [`NODE_NAMES`] and
    /// for these host names and addresses.
    ///
    /// # Errors
    /// `Invalid` if a name is not ASCII, or the cryptographic library cannot make keys.
    pub fn issue_node(&self, entity: &EntityName, hosts: &[String]) -> Result<Identity> {
        let mut names: Vec<String> = NODE_NAMES.map(str::to_owned).into();
        for host in hosts {
            if !names.contains(host) {
                names.push(host.clone());
            }
        }
        self.certify(entity, Usage::Node, names)
    }

    fn certify(&self, entity: &EntityName, usage: Usage, names: Vec<String>) -> Result<Identity> {
        let mut params = CertificateParams::new(names).map_err(unusable)?;
        let uri = format!("{ENTITY_URI}{entity}").try_into().map_err(unusable)?;
        params.subject_alt_names.push(SanType::URI(uri));
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, entity.as_str());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if usage == Usage::Node {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        let key = KeyPair::generate().map_err(unusable)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(unusable)?;
        Identity::new(
            entity.clone(),
            self.certificate_pem.clone(),
            certificate.pem(),
            key.serialize_pem(),
        )
    }
}
