//! A stream to the server, by TLS or not.

use std::io;
use std::net::SocketAddr;
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

/// Connects, by TLS or not: to `peer`, where that is known, else to wherever the host's name leads. Returns where that is, too.
pub(super) async fn connect(
    address: &Address,
    peer: Option<SocketAddr>,
    tls: Option<&Tls>,
) -> io::Result<(Box<dyn Stream>, Option<SocketAddr>)> {
    let (stream, peer) = plain(address, peer).await?;
    let stream = match (tls, address) {
        (Some(tls), Address::Tcp { host, .. }) => tls.wrap(host, stream).await?,
        _ => stream,
    };
    Ok((stream, peer))
}

async fn plain(
    address: &Address,
    peer: Option<SocketAddr>,
) -> io::Result<(Box<dyn Stream>, Option<SocketAddr>)> {
    if let Some(simulated) = outside::connect(|| address.to_string()) {
        return Ok((simulated.await?, None));
    }
    Ok(match address {
        Address::Tcp { host, port } => {
            let addresses = match peer {
                Some(peer) => vec![peer],
                None => lookup_host((host.as_str(), *port)).await?.collect(),
            };
            let stream = connect_tcp(addresses).await?;
            let peer = stream.peer_addr()?;
            (Box::new(stream), Some(peer))
        }
        #[cfg(unix)]
        Address::Unix(path) => (Box::new(tokio::net::UnixStream::connect(path).await?), None),
    })
}

/// Connects to the first of the host's addresses that answers.
async fn connect_tcp(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    /// The name has led to the old server, and leads to the new one now.
    #[tokio::test]
    async fn messages_come_from_where_commands_go() {
        let new = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = new.local_addr().expect("it has one").port();
        let old = TcpListener::bind(("127.0.0.2", port)).await.expect("free");
        let address = Address::tcp("localhost", port);
        for (known, server) in [(Some(&old), &old), (None, &new), (Some(&new), &new)] {
            let known = known.map(|known| known.local_addr().expect("it has one"));
            let (_stream, peer) = connect(&address, known, None).await.expect("both listen");
            assert_eq!(peer, server.local_addr().ok());
            let accepted = timeout(Duration::from_secs(5), server.accept()).await;
            accepted.expect("the right one").expect("accepts");
        }
    }
}
