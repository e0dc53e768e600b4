//! By rustls, with ring for its cryptography.

use std::io;
use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, Error, InvalidMessage, RootCertStore};

use super::IS_IT_TLS;
use crate::outside::Stream;
use crate::tls::{self, Certificate};

/// The TLS configuration for a server.
#[derive(Clone)]
pub(in crate::transport) struct Tls {
    connector: TlsConnector,
    /// Instead of the host's.
    server_name: Option<ServerName<'static>>,
}

impl Tls {
    pub(in crate::transport) fn new(settings: &tls::Tls) -> Result<Self, String> {
        let roots = match &settings.authorities {
            Some(pem) => read_authorities(pem)?,
            None => system_authorities()?,
        };
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS: {error}"))?
            .with_root_certificates(roots);
        let config = match &settings.certificate {
            None => config.with_no_client_auth(),
            Some(Certificate { chain, key }) => {
                let chain = read_certificates(chain, "the client certificate")?;
                let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| {
                    format!(
                        "TLS: the client certificate's key is not a private key in PEM: {error}"
                    )
                })?;
                config.with_client_auth_cert(chain, key).map_err(|error| {
                    format!("TLS: the client certificate and its key cannot be used: {error}")
                })?
            }
        };
        let server_name = settings.server_name.as_deref().map(server_name).transpose();
        Ok(Tls {
            connector: Arc::new(config).into(),
            server_name: server_name.map_err(|error| error.to_string())?,
        })
    }

    /// Returns when the server has shown a certificate that fits.
    pub(in crate::transport) async fn wrap(
        &self,
        host: &str,
        stream: Box<dyn Stream>,
    ) -> io::Result<Box<dyn Stream>> {
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => server_name(host)?,
        };
        let stream = self.connector.connect(name, stream).await?;
        Ok(Box::new(stream))
    }
}

pub(super) fn said_by_tls(error: &io::Error) -> Option<String> {
    let inner = error.get_ref()?.downcast_ref::<Error>()?;
    let hint = match inner {
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => IS_IT_TLS,
        _ => "",
    };
    Some(format!("{inner}{hint}"))
}

fn server_name(name: &str) -> io::Result<ServerName<'static>> {
    ServerName::try_from(name.to_owned()).map_err(|_| {
        let problem = format!("TLS: {name:?} is no name that a certificate can be for");
        io::Error::other(problem)
    })
}

fn read_certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| format!("TLS: {what}: not in PEM: {error}"))?;
    if certificates.is_empty() {
        return Err(format!("TLS: {what}: no certificate in PEM"));
    }
    Ok(certificates)
}

fn read_authorities(pem: &[u8]) -> Result<RootCertStore, String> {
    let what = "the authorities to trust";
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(pem, what)? {
        let added = roots.add(certificate);
        added.map_err(|error| format!("TLS: {what}: {error}"))?;
    }
    Ok(roots)
}

/// Some of them may be of a kind that is not known here.
fn system_authorities() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let errors: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
        let errors = errors.join("; ");
        return Err(format!(
            "TLS: the system trusts nobody, as far as can be seen ({errors})"
        ));
    }
    Ok(roots)
}
