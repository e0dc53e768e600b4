//! A client that confirms what it was granted too late: the next one in the queue has it by then, and the client waits on.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;

use crate::lost::builder;
use crate::reconnect::{let_in, waiting};
use crate::subject::Subject;
use crate::subjects::for_every_subject;
use crate::support::clients::LIMIT;
use crate::support::proxy::{Fate, Proxy};
use crate::support::server::RedisServer;
use crate::support::waiters::until;

/// Waits until so many clients hear what they are granted.
async fn until_clients_wait(redis: &mut MultiplexedConnection, count: usize) {
    until(&format!("{count} clients wait"), LIMIT, async || {
        let mut channels = redis::cmd("PUBSUB");
        let channels = channels.arg("CHANNELS").query_async(redis).await;
        let channels: Vec<String> = channels.unwrap();
        let own = channels
            .iter()
            .filter(|channel| channel.contains("queue:") || channel.contains("waiters:"));
        own.count() == count
    })
    .await;
}

async fn confirms_too_late<S: Subject>() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let proxy = Proxy::start(&server).await;
    let [holding, next] = [(); 2].map(|()| builder(server.url()).connect());
    let (holding, next) = (holding.await.unwrap(), next.await.unwrap());
    // It sends the confirmation once.
    let stalled = builder(proxy.url()).response_timeout(LIMIT);
    let stalled = stalled.connect().await.unwrap();
    let holder = S::new(&holding, S::NAME);
    holder.close().await.unwrap();
    let first = Arc::new(S::new(&stalled, S::NAME));
    let first_waits = waiting(&first);
    until_clients_wait(&mut redis, 1).await;
    let try_now = async |client| S::new(client, S::NAME).take(Some(Duration::ZERO)).await;
    // Answered behind the waiter's own requests.
    assert_eq!(try_now(&stalled).await, Ok(false));
    let second = Arc::new(S::new(&next, S::NAME));
    let second_waits = waiting(&second);
    until_clients_wait(&mut redis, 2).await;
    assert_eq!(try_now(&next).await, Ok(false));
    let struck = proxy.struck();
    proxy.at_script(1, Fate::HoldRequest);
    holder.open().await.unwrap();
    proxy.until_struck(struck + 1).await;
    let_in(S::NAME, second_waits).await;
    proxy.deliver(1).await;
    assert_eq!(try_now(&stalled).await, Ok(false), "{}", S::NAME);
    assert!(!first_waits.is_finished(), "{}: two have it", S::NAME);
    second.give().await.unwrap();
    let_in(S::NAME, first_waits).await;
}

/// Locks and guards are held before their confirmation: see `tests/primitives/queue/grants.rs`. A latch grants nothing.
#[tokio::test]
async fn a_confirmation_that_comes_too_late_is_refused() {
    for_every_subject!(confirms_too_late;
        Semaphore, Permits, StringLock,
        Leased<0>, Leased<1>, Leased<2>, Leased<3>, Leased<4>, Leased<5>, Leased<6>,
    );
}
