//! The queue of waiters: order and grants.

mod grants;
mod listener;
mod order;
mod stalled;

use redisson_semaphore::Client;

use crate::support::clients::{LIMIT, builder};
use crate::support::proxy::Proxy;
use crate::support::server::RedisServer;

/// A client behind a proxy that loses nothing yet.
async fn far(server: &RedisServer) -> (Proxy, Client) {
    let proxy = Proxy::start(server).await;
    let client = builder(proxy.url()).response_timeout(LIMIT);
    let client = client.connect().await.unwrap();
    (proxy, client)
}
