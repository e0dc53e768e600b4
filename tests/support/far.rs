//! A server that is far away: all that is said takes its time, in both directions, and nothing is lost.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::server::RedisServer;

pub struct Far {
    port: u16,
    relay: AbortHandle,
}

impl Drop for Far {
    fn drop(&mut self) {
        self.relay.abort();
    }
}

impl Far {
    /// The way to `server` takes as long as `one_way`, and so does the way back.
    pub async fn start(server: &RedisServer, one_way: Duration) -> Far {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = server.port();
        let relay = tokio::spawn(async move {
            let mut ways = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                let ((from_client, to_client), (from_server, to_server)) =
                    (client.into_split(), server.into_split());
                ways.spawn(carry(from_client, to_server, one_way));
                ways.spawn(carry(from_server, to_client, one_way));
            }
        });
        Far {
            port,
            relay: relay.abort_handle(),
        }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, one_way: Duration) {
    let (depart, mut arrive) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let reading = async move {
        let mut buffer = vec![0; 65_536];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            let words = (Instant::now() + one_way, buffer[..count].to_vec());
            if depart.send(words).is_err() {
                return;
            }
        }
    };
    let writing = async move {
        while let Some((due, words)) = arrive.recv().await {
            sleep_until(due).await;
            if to.write_all(&words).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(reading, writing);
}
