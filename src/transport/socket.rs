//! A stream to the server, by TLS or not.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::select_ok;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpStream, lookup_host};

use super::address::Address;
use super::tls::Tls;
use crate::outside::{self, Stream};
use crate::sync::Mutex;

/// An idle connection is probed after this long, then every `KEEPALIVE_PAUSE`.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_PAUSE: Duration = Duration::from_secs(5);

/// Where connections for commands have found their hosts.
#[derive(Clone, Default)]
pub(super) struct Found(Arc<Mutex<BTreeMap<Address, SocketAddr>>>);

/// How a host is found. Its name may lead to another server from one moment to the next.
#[derive(Clone, Copy)]
pub(super) enum Lookup<'a> {
    /// By its name.
    Anew,
    /// By its name, for commands.
    ForCommands(&'a Found),
    /// Where commands go, for messages: elsewhere they would not be heard.
    ForMessages(&'a Found),
}

/// Connects, by TLS or not.
pub(super) async fn connect(
    address: &Address,
    tls: Option<&Tls>,
    lookup: Lookup<'_>,
) -> io::Result<Box<dyn Stream>> {
    let stream = plain(address, lookup).await?;
    match (tls, address) {
        (Some(tls), Address::Tcp { host, .. }) => tls.wrap(host, stream).await,
        _ => Ok(stream),
    }
}

async fn plain(address: &Address, lookup: Lookup<'_>) -> io::Result<Box<dyn Stream>> {
    if let Some(simulated) = outside::connect(|| address.to_string()) {
        return simulated.await;
    }
    Ok(match address {
        Address::Tcp { host, port } => {
            let known = match lookup {
                Lookup::ForMessages(found) => found.0.lock().get(address).copied(),
                Lookup::ForCommands(_) | Lookup::Anew => None,
            };
            let addresses = match known {
                Some(known) => vec![known],
                None => lookup_host((host.as_str(), *port)).await?.collect(),
            };
            let stream = connect_tcp(addresses).await?;
            if let Lookup::ForCommands(found) = lookup {
                let known = stream.peer_addr()?;
                found.0.lock().insert(address.clone(), known);
            }
            Box::new(stream)
        }
        #[cfg(unix)]
        Address::Unix(path) => Box::new(tokio::net::UnixStream::connect(path).await?),
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
        let (address, found) = (Address::tcp("localhost", port), Found::default());
        let known = old.local_addr().expect("it has one");
        found.0.lock().insert(address.clone(), known);
        for (lookup, server) in [
            (Lookup::ForMessages(&found), &old),
            (Lookup::Anew, &new),
            (Lookup::ForMessages(&found), &old),
            (Lookup::ForCommands(&found), &new),
            (Lookup::ForMessages(&found), &new),
        ] {
            let _stream = connect(&address, None, lookup).await.expect("both listen");
            let accepted = timeout(Duration::from_secs(5), server.accept()).await;
            accepted.expect("the right one").expect("accepts");
        }
    }
}
