//! By the TLS library that the system has: OpenSSL, or that of Windows or macOS.

use std::error::Error as _;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::{fmt, io};

use native_tls::{Certificate, Identity};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_native_tls::{TlsConnector, TlsStream};

use super::IS_IT_TLS;
use crate::outside::Stream;
use crate::tls;
use crate::transport::gather::Gathering;

/// What it takes to speak TLS with a server.
#[derive(Clone)]
pub(in crate::transport) struct Tls {
    connector: TlsConnector,
    /// Instead of the host's.
    server_name: Option<String>,
}

impl Tls {
    pub(in crate::transport) fn new(settings: &tls::Tls) -> Result<Self, String> {
        let mut connector = native_tls::TlsConnector::builder();
        if let Some(pem) = &settings.authorities {
            connector.disable_built_in_roots(true);
            for authority in read_authorities(pem)? {
                connector.add_root_certificate(authority);
            }
        }
        let unusable =
            |error| format!("TLS: the client certificate and its key cannot be used: {error}");
        if let Some(tls::Certificate { chain, key }) = &settings.certificate {
            let identity = Identity::from_pkcs8(chain, private_key(key)?);
            connector.identity(identity.map_err(unusable)?);
        }
        if let Some(name) = &settings.server_name {
            check(name).map_err(|error| error.to_string())?;
        }
        Ok(Tls {
            connector: connector.build().map_err(unusable)?.into(),
            server_name: settings.server_name.clone(),
        })
    }

    /// Returns when the server has shown a certificate that fits.
    pub(in crate::transport) async fn wrap(
        &self,
        host: &str,
        stream: Box<dyn Stream>,
    ) -> io::Result<Box<dyn Stream>> {
        let name = self.server_name.as_deref().unwrap_or(host);
        check(name)?;
        let stream = self.connector.connect(name, stream).await;
        let stream = stream.map_err(at_handshake)?;
        Ok(Box::new(Gathering::new(Named(stream))))
    }
}

fn check(name: &str) -> io::Result<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if name.parse::<IpAddr>().is_ok() || (!name.is_empty() && name.bytes().all(plain)) {
        return Ok(());
    }
    let problem = format!("TLS: {name:?} is no name that a certificate can be for");
    Err(io::Error::other(problem))
}

fn read_authorities(pem: &[u8]) -> Result<Vec<Certificate>, String> {
    let what = "the authorities to trust";
    let authorities = Certificate::stack_from_pem(pem);
    let authorities = authorities.map_err(|error| format!("TLS: {what}: not in PEM: {error}"))?;
    if authorities.is_empty() {
        return Err(format!("TLS: {what}: no certificate in PEM"));
    }
    Ok(authorities)
}

/// The key, where certificates may stand before it.
fn private_key(pem: &[u8]) -> Result<&[u8], String> {
    const BEGIN: &[u8] = b"-----BEGIN PRIVATE KEY-----";
    let begins = pem.windows(BEGIN.len()).position(|part| part == BEGIN);
    let key = begins.map(|begins| &pem[begins..]);
    key.ok_or_else(|| {
        "TLS: the client certificate's key is not a private key in PEM, of the form PKCS#8 (BEGIN PRIVATE KEY)"
            .to_owned()
    })
}

/// What the library has found wrong, on either side.
#[derive(Debug)]
struct Found(String);

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Found {}

pub(super) fn said_by_tls(error: &io::Error) -> Option<String> {
    let Found(what) = error.get_ref()?.downcast_ref()?;
    let hint = match what.contains("wrong version number") {
        true => IS_IT_TLS,
        false => "",
    };
    Some(format!("{what}{hint}"))
}

/// What is the network's stands behind what the library says of it.
fn at_handshake(error: native_tls::Error) -> io::Error {
    let mut cause = error.source();
    while let Some(known) = cause {
        if let Some(network) = known.downcast_ref::<io::Error>() {
            return io::Error::new(network.kind(), error.to_string());
        }
        cause = known.source();
    }
    found(error.to_string())
}

fn found(what: String) -> io::Error {
    // OpenSSL takes a connection that just ends for a fault.
    if what.to_lowercase().contains("unexpected eof") {
        return io::Error::new(io::ErrorKind::UnexpectedEof, what);
    }
    io::Error::other(Found(what))
}

/// A stream whose errors tell whether they are the library's.
struct Named(TlsStream<Box<dyn Stream>>);

/// Those of the network have a kind, or a number of the system's.
fn named(error: io::Error) -> io::Error {
    match (error.kind(), error.get_ref()) {
        (io::ErrorKind::Other, Some(inner)) => found(inner.to_string()),
        _ => error,
    }
}

impl AsyncRead for Named {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = ready!(Pin::new(&mut self.0).poll_read(cx, buffer));
        Poll::Ready(read.map_err(named))
    }
}

impl AsyncWrite for Named {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.0).poll_write(cx, bytes));
        Poll::Ready(written.map_err(named))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
