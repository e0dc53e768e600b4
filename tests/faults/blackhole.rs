//! Packets that vanish without a reset: it is found out by time-outs, and nobody hangs.

use std::time::Duration;

use crate::support::clients::{LIMIT, builder, connect, release_as_redisson, served, stored};
use crate::support::proxy::Proxy;
use crate::support::sequence::start;
use crate::support::server::RedisServer;
use crate::support::waiters::{until, waiter};

#[tokio::test]
async fn a_subscription_that_has_fallen_silent_is_found_out() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let proxy = Proxy::start(&server).await;
    let client = connect(proxy.url()).await;
    let semaphore = client.semaphore("silent");
    let task = waiter(&mut control, &semaphore, 1).await;
    proxy.mute();
    release_as_redisson(&mut control, "silent", 1).await;
    let opened = proxy.opened();
    until("the client notices", LIMIT, async || {
        proxy.opened() > opened
    })
    .await;
    assert!(!task.is_finished());
    proxy.clear();
    served(task).await;
}

#[tokio::test]
async fn a_dropped_guard_outlives_a_server_that_is_silent() {
    let (server, proxy) = start().await;
    let client = builder(proxy.url())
        .connect_timeout(Duration::from_millis(200))
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("guarded");
    semaphore.try_set_permits(3).await.unwrap();
    let permit = semaphore.permit(2).await.unwrap();
    proxy.mute();
    drop(permit);
    let opened = proxy.opened();
    until("the client tries again", LIMIT, async || {
        proxy.opened() > opened + 1
    })
    .await;
    proxy.clear();
    until("the permits are back", LIMIT, async || {
        stored(&server, "guarded").await == ["3"]
    })
    .await;
    client.shutdown().await.unwrap();
    assert_eq!(stored(&server, "guarded").await, ["3"]);
}

/// The command connection and the subscription, with calls under way and a caller that waits.
#[tokio::test]
async fn all_connections_fall_into_a_hole() {
    let (server, proxy) = start().await;
    let mut control = server.connection().await;
    let client = builder(proxy.url())
        .connect_timeout(Duration::from_millis(300))
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("hole");
    let waiting = waiter(&mut control, &semaphore, 4).await;
    proxy.blackhole();
    let opened = proxy.opened();
    let release = semaphore.clone();
    let release = tokio::spawn(async move { release.release(1).await });
    release_as_redisson(&mut control, "hole", 3).await;
    until("the client tries again and again", LIMIT, async || {
        proxy.opened() > opened + 2
    })
    .await;
    assert!(!release.is_finished() && !waiting.is_finished());
    proxy.clear();
    served(release).await;
    served(waiting).await;
    assert_eq!(stored(&server, "hole").await, ["0"]);
}
