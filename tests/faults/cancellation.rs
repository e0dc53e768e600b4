//! Thousands of calls that are begun and left alone: they hold nobody up. Single ones are in `tests/hazards`.

use std::time::Duration;

use crate::support::clients::{LIMIT, builder};
use crate::support::polls::poll_once;
use crate::support::proxy::Proxy;
use crate::support::server::RedisServer;
use crate::support::waiters::until;
use redis::AsyncCommands;
use redisson_semaphore::RSemaphore;
use tokio::time::{Instant, timeout};

/// More calls than the connection takes without being asked twice.
const CROWD: usize = 3000;

/// More calls than the connection takes at once, each polled once and then left alone for longer than an answer may take.
#[tokio::test]
async fn a_crowd_left_alone_holds_nobody_up() {
    // A machine with ten busy processes a core takes more than a second for so many calls.
    const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);
    let server = RedisServer::start().await;
    let proxy = Proxy::start(&server).await;
    let builder = builder(proxy.url()).response_timeout(RESPONSE_TIMEOUT);
    let client = builder.connect().await.expect("the server runs");
    assert_eq!(client.semaphore("other").available_permits().await, Ok(0));
    // The server knows the script from here on.
    client.semaphore("warm-up").release(1).await.unwrap();
    let opened = proxy.opened();
    let semaphores: Vec<_> = (0..CROWD)
        .map(|number| client.semaphore(&format!("crowd-{number}")))
        .collect();
    let mut crowd: Vec<_> = semaphores
        .iter()
        .map(|semaphore| Box::pin(semaphore.add_permits(1)))
        .collect();
    // All at once: the connection has no time in between.
    tokio::task::unconstrained(async {
        for call in &mut crowd {
            assert!(poll_once(&mut call.as_mut()).await.is_pending());
        }
    })
    .await;
    let left_alone = Instant::now();
    while left_alone.elapsed() < 2 * RESPONSE_TIMEOUT {
        assert_eq!(client.semaphore("other").available_permits().await, Ok(0));
    }
    assert_eq!(proxy.opened(), opened, "a healthy connection was replaced");
    let names: Vec<_> = semaphores.iter().map(RSemaphore::name).collect();
    let mut control = server.connection().await;
    until("all are carried out", LIMIT, async || {
        let stored: Vec<Option<u32>> = control.mget(&names).await.unwrap();
        stored.iter().all(|permits| *permits == Some(1))
    })
    .await;
    for call in crowd {
        timeout(LIMIT, call).await.expect("answered").unwrap();
    }
}
