//! Translates a failed TLS handshake into an error for the client.
//!
//! A retry does not help if a certificate is expired or was issued by another authority. Such a
//! failure is `Denied`, and requests fail without another attempt. Any other failure is
//! `Unavailable`.

use std::io;

use nacre_object::Error;
use tokio_rustls::rustls::{self, AlertDescription, CertificateError};

const NEW_IDENTITY: &str = "`nacre entity add NAME`, in the cluster's folder, makes an identity";

/// The error of a client that could not shake hands.
pub(super) fn explained(error: &io::Error) -> Error {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    let text = match cause {
        Some(rustls::Error::InvalidCertificate(fault)) => wrong_node(fault),
        Some(rustls::Error::AlertReceived(alert)) => wrong_client(*alert),
        _ => None,
    };
    match text {
        Some(text) => Error::denied(text).hint(NEW_IDENTITY),
        None => Error::unavailable(format!("the TLS handshake failed: {error}")),
    }
}

/// Says what this end found wrong with the node's certificate.
fn wrong_node(fault: &CertificateError) -> Option<String> {
    use CertificateError as E;
    Some(match fault {
        E::Expired | E::ExpiredContext { .. } => "the node's certificate has expired".to_owned(),
        E::NotValidYet | E::NotValidYetContext { .. } => {
            "the node's certificate is not valid yet; compare the clocks".to_owned()
        }
        E::UnknownIssuer | E::BadSignature => {
            "the node's certificate is of another authority than this identity".to_owned()
        }
        // Another process listens where the node should: that may pass.
        _ => return None,
    })
}

/// Says what the node found wrong with this end's certificate.
fn wrong_client(alert: AlertDescription) -> Option<String> {
    use AlertDescription as A;
    Some(match alert {
        A::CertificateExpired => {
            "the node refuses this identity: its certificate has expired or is not valid yet"
                .to_owned()
        }
        A::UnknownCA | A::DecryptError => {
            "the node refuses this identity: its certificate is of another authority".to_owned()
        }
        A::CertificateRequired
        | A::BadCertificate
        | A::UnsupportedCertificate
        | A::CertificateRevoked
        | A::CertificateUnknown
        | A::AccessDenied => {
            format!("the node refuses this identity's certificate: {alert:?}")
        }
        _ => return None,
    })
}
