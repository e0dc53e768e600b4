//! The settings of TLS: trusted authorities, and the client's certificate.
#![cfg_attr(not(feature = "tls-rustls"), allow(dead_code, unreachable_pub))]

use std::fmt;

/// The settings of TLS, for [`ClientBuilder::tls`](crate::ClientBuilder::tls).
///
/// Without any, `rediss://` trusts the authorities that the system trusts (`SSL_CERT_FILE` and `SSL_CERT_DIR` name others)
/// and expects the server's certificate to be for the host of the URL. TLS 1.2 and 1.3 are spoken. There is no switch that
/// lets a certificate pass unchecked: trust the server's own with [`trust_only`](Self::trust_only) instead.
///
#[cfg_attr(feature = "tls-rustls", doc = "```no_run")]
#[cfg_attr(not(feature = "tls-rustls"), doc = "```ignore")]
/// # async fn connect() -> Result<(), Box<dyn std::error::Error>> {
/// use redisson_semaphore::{Client, Tls};
///
/// let client = Client::builder("rediss://redis.internal:6380")
///     .tls(Tls::new()
///         .trust_only(std::fs::read("ca.pem")?)
///         .client_certificate(std::fs::read("client.pem")?, std::fs::read("client.key")?))
///     .connect()
///     .await?;
/// # drop(client);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct Tls {
    pub(crate) authorities: Option<Vec<u8>>,
    pub(crate) certificate: Option<Certificate>,
    pub(crate) server_name: Option<String>,
}

/// A client certificate with its chain, and its key.
#[derive(Clone)]
pub(crate) struct Certificate {
    pub(crate) chain: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

impl Tls {
    /// As `rediss://` does by itself.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts these authorities and no others: one or more certificates in PEM.
    pub fn trust_only(mut self, certificates: impl Into<Vec<u8>>) -> Self {
        self.authorities = Some(certificates.into());
        self
    }

    /// Shows a certificate to servers that ask for one: in PEM, with those between it and its authority behind it, and its
    /// key in PEM, without a passphrase.
    pub fn client_certificate(
        mut self,
        chain: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        let (chain, key) = (chain.into(), key.into());
        self.certificate = Some(Certificate { chain, key });
        self
    }

    /// The name, or IP address, that the server's certificate has to be for; the host it is reached at by default.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key stays out.
        f.debug_struct("Tls")
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}
