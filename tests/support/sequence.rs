//! A client that notices lost replies at once, and a server that knows the scripts.

use std::time::Duration;

use super::proxy::Proxy;
use super::server::RedisServer;
use redisson_semaphore::{Client, ClientBuilder};

/// Notices a lost reply at once.
pub fn builder(url: String) -> ClientBuilder {
    super::clients::builder(url).response_timeout(Duration::from_millis(60))
}

pub async fn connect(url: String) -> Client {
    builder(url).connect().await.expect("the server runs")
}

/// The scripts are in the server's cache from now on, so that each call is one script call.
pub async fn warm_up(server: &RedisServer) {
    let client = connect(server.url()).await;
    let semaphore = client.semaphore("warm-up");
    assert!(semaphore.try_set_permits(1).await.unwrap());
    semaphore.release(1).await.unwrap();
    semaphore.delete().await.unwrap();
}

/// A server that has been told the scripts, and a proxy in front of it.
pub async fn start() -> (RedisServer, Proxy) {
    let server = RedisServer::start().await;
    warm_up(&server).await;
    let proxy = Proxy::start(&server).await;
    (server, proxy)
}
