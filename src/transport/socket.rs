//! A stream to the server, by TLS or not, of which is known how much has been written to the network.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::select_ok;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, lookup_host};

use super::address::Address;
use super::tls::Tls;
use crate::outside::{self, Stream};

/// An idle connection is probed after this long, then every `KEEPALIVE_PAUSE`.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_PAUSE: Duration = Duration::from_secs(5);

/// A connected stream.
pub(super) struct Socket {
    pub(super) stream: Box<dyn Stream>,
    pub(super) traffic: Arc<Traffic>,
}

/// What is known of a connection from outside.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// How many bytes have been written.
    written: AtomicU64,
}

impl Traffic {
    /// What was handed over since it was this much, and this is so much still, has not left the process.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }
}

impl Socket {
    pub(super) async fn connect(address: &Address, tls: Option<&Tls>) -> io::Result<Self> {
        let traffic = Arc::<Traffic>::default();
        let stream = Box::new(Counted {
            stream: plain(address).await?,
            traffic: Arc::clone(&traffic),
        });
        let stream = match (tls, address) {
            (Some(tls), Address::Tcp { host, .. }) => tls.wrap(host, stream).await?,
            _ => stream,
        };
        Ok(Socket { stream, traffic })
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

/// Counts below TLS: what TLS has taken and the network has not is not counted, so what is not counted was not sent.
struct Counted {
    stream: Box<dyn Stream>,
    traffic: Arc<Traffic>,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(count)) = written {
            self.traffic
                .written
                .fetch_add(count as u64, Ordering::Release);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
