//! A stream to the server, by TLS or not.

use std::io;
use std::time::Duration;

use futures::future::select_ok;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpStream, lookup_host};

use super::address::Address;
use super::tls::Tls;
use crate::outside::{self, Stream};

/// An idle connection is probed after this long, then every `KEEPALIVE_PAUSE`.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_PAUSE: Duration = Duration::from_secs(5);

/// Connects, by TLS or not.
pub(super) async fn connect(address: &Address, tls: Option<&Tls>) -> io::Result<Box<dyn Stream>> {
    let stream = plain(address).await?;
    match (tls, address) {
        (Some(tls), Address::Tcp { host, .. }) => tls.wrap(host, stream).await,
        _ => Ok(stream),
    }
}

async fn plain(address: &Address) -> io::Result<Box<dyn Stream>> {
    if let Some(simulated) = outside::connect(|| address.to_string()) {
        return simulated.await;
    }
    Ok(match address {
        Address::Tcp { host, port } => Box::new(connect_tcp(host, *port).await?),
        #[cfg(unix)]
        Address::Unix(path) => Box::new(tokio::net::UnixStream::connect(path).await?),
    })
}

/// Connects to the first of the host's addresses that answers.
async fn connect_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses: Vec<_> = lookup_host((host, port)).await?.collect();
    if addresses.is_empty() {
        return Err(io::Error::other("the host has no address"));
    }
    let attempts = addresses
        .into_iter()
        .map(|address| Box::pin(TcpStream::connect(address)));
    let (stream, _) = select_ok(attempts).await?;
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_PAUSE);
    SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
    Ok(stream)
}
