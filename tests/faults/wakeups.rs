//! Wake-ups that come at an awkward moment, or not at all.

use crate::support::clients::{LIMIT, builder, connect, served, start_controlled};
use crate::support::proxy::{Fate, Proxy};
use crate::support::server::RedisServer;
use crate::support::waiters::{channel, settled_waiter, until, until_subscribers, waiter};
use redis::AsyncCommands;

#[tokio::test]
async fn objects_that_share_a_channel_do_not_take_each_others_wake_ups() {
    // Redisson derives the same channel from both names.
    let (server, mut control) = start_controlled().await;
    let client = connect(server.url()).await;
    let other = connect(server.url()).await;
    let plain = waiter(&mut control, &client.semaphore("seat"), 1).await;
    let braced = client.semaphore("{seat}");
    let call = braced.clone();
    let braced_waiter = tokio::spawn(async move { call.acquire(1).await });
    // Its question is answered when two more have been, one behind the other.
    tokio::task::yield_now().await;
    braced.available_permits().await.unwrap();
    braced.available_permits().await.unwrap();
    other.semaphore("seat").release(1).await.unwrap();
    served(plain).await;
    other.semaphore("{seat}").release(1).await.unwrap();
    served(braced_waiter).await;
}

/// A JVM releases before the client that is to listen to JVMs has subscribed.
#[tokio::test]
async fn a_release_before_the_subscription_is_not_missed() {
    let (server, mut control) = start_controlled().await;
    let _: () = control.set("early", 0).await.unwrap();
    let proxy = Proxy::start(&server).await;
    let client = builder(proxy.url()).response_timeout(LIMIT);
    let client = client.safety_interval(2 * LIMIT).connect().await.unwrap();
    let semaphore = client.semaphore("early");
    // The server has the script from now on.
    assert!(!semaphore.try_acquire(1).await.unwrap());
    // The first one queues the caller, the second one chooses this client.
    proxy.at_script(2, Fate::HoldReply);
    let call = tokio::spawn(async move { semaphore.acquire(1).await });
    proxy.until_struck(1).await;
    let _: () = redis::pipe()
        .incr("early", 1)
        .publish(channel("early"), 1)
        .query_async(&mut control)
        .await
        .unwrap();
    proxy.deliver(1).await;
    served(call).await;
}

/// A server that is busy with a script for a moment refuses the subscription, too: the waiter goes on waiting.
#[tokio::test]
async fn a_subscription_that_is_refused_for_now_is_made_later() {
    let server = RedisServer::options()
        .setting("busy-reply-threshold", "50")
        .start()
        .await;
    let mut control = server.connection().await;
    let proxy = Proxy::start(&server).await;
    let client = connect(proxy.url()).await;
    let listening = client.semaphore("listening");
    let releasing = connect(server.url()).await.semaphore("listening");
    let listening = settled_waiter(&mut control, &listening, 1, &releasing).await;
    let semaphore = client.semaphore("late");
    proxy.at_script(1, Fate::HoldReply);
    let call = semaphore.clone();
    let call = tokio::spawn(async move { call.acquire(1).await });
    proxy.until_struck(1).await;
    let mut busy = server.connection().await;
    let script = tokio::spawn(async move {
        let mut command = redis::cmd("EVAL");
        command.arg("while true do end").arg(0);
        command.exec_async(&mut busy).await
    });
    until("the server is busy", LIMIT, async || {
        let pong: redis::RedisResult<String> = redis::cmd("PING").query_async(&mut control).await;
        pong.is_err_and(|error| error.code() == Some("BUSY"))
    })
    .await;
    let opened = proxy.opened();
    proxy.deliver(1).await;
    until("the subscription is refused", LIMIT, async || {
        proxy.opened() > opened || call.is_finished()
    })
    .await;
    let _: () = redis::cmd("SCRIPT")
        .arg("KILL")
        .query_async(&mut control)
        .await
        .unwrap();
    script.await.unwrap().unwrap_err();
    until_subscribers(&mut control, &channel("late"), 1).await;
    semaphore.release(1).await.unwrap();
    served(call).await;
    client.semaphore("listening").release(1).await.unwrap();
    served(listening).await;
}
