//! How many connections and subscriptions a client has, also behind a reconnection.

use crate::support::clients::{LIMIT, connect, connections, kill, served, start_controlled};
use crate::support::waiters::{channel, until, until_subscribers, waiter};
use redis::aio::MultiplexedConnection;

async fn until_one(control: &mut MultiplexedConnection, kind: &str) {
    let what = format!("one connection, {kind}");
    until(&what, LIMIT, async || connections(control, kind).await == 1).await;
}

#[tokio::test]
async fn one_subscription_a_channel_and_one_connection_a_client() {
    let (server, mut control) = start_controlled().await;
    let client = connect(server.url()).await;
    let names = ["one", "two", "three"];
    assert_eq!(connections(&mut control, "pubsub").await, 0);
    let mut tasks = Vec::new();
    for name in names {
        for permits in 1..20 {
            tasks.push(waiter(&mut control, &client.semaphore(name), permits % 3 + 1).await);
        }
    }
    for kind in ["normal", "pubsub"] {
        until_one(&mut control, kind).await;
    }
    for name in names {
        until_subscribers(&mut control, &channel(name), 1).await;
    }
    // The same behind a reconnection.
    assert_eq!(kill(&mut control, "pubsub").await, 1);
    for name in names {
        until_subscribers(&mut control, &channel(name), 1).await;
    }
    until_one(&mut control, "pubsub").await;
    for name in names {
        client.semaphore(name).release(60).await.unwrap();
    }
    for task in tasks {
        served(task).await;
    }
    for name in names {
        until_subscribers(&mut control, &channel(name), 0).await;
    }
    drop(client);
    for kind in ["normal", "pubsub"] {
        until("the connections are closed", LIMIT, async || {
            connections(&mut control.clone(), kind).await == 0
        })
        .await;
    }
}
