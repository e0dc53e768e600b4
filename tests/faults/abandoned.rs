//! Thousands of calls that are begun and left alone: they hold no other call up, and do not fill the memory while the server is frozen.
//! Single calls are in `tests/hazards`.

use std::pin::pin;
use std::time::Duration;

use crate::support::clients::{LIMIT, builder, stored};
use crate::support::polls::poll_once;
use crate::support::proxy::Proxy;
use crate::support::server::RedisServer;
use crate::support::waiters::until;
use futures::future::join_all;
use redis::AsyncCommands;
use redisson_semaphore::RSemaphore;
use tokio::time::{Instant, timeout};

/// The cost of a frozen server in all, however many calls are made meanwhile.
const MOST_MEMORY: u64 = 48 << 20;

/// This process's memory in use, in bytes.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.expect("it is told").trim().trim_end_matches(" kB");
    kilobytes.parse::<u64>().expect("a number") << 10
}

#[tokio::test]
async fn calls_that_nobody_waits_for_do_not_fill_the_memory() {
    const GUARDS: u32 = 20_000;
    const ROUNDS: u32 = 300_000;
    let mut server = RedisServer::start().await;
    let client = builder(server.url())
        .response_timeout(Duration::from_secs(60))
        .local_hand_off(Duration::ZERO)
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("frozen");
    semaphore.try_set_permits(GUARDS).await.unwrap();
    let guards = join_all((0..GUARDS).map(|_| semaphore.permit(1))).await;
    assert_eq!(stored(&server, "frozen").await, ["0"]);

    server.freeze();
    let before = memory();
    drop(guards);
    for round in 0..ROUNDS {
        let _ = poll_once(&mut pin!(semaphore.try_acquire(1 + round % 7))).await;
        let _ = poll_once(&mut pin!(semaphore.acquire(1 + round % 7))).await;
        let _ = poll_once(&mut pin!(semaphore.available_permits())).await;
        if round % 1000 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let grown = memory().saturating_sub(before);
    server.thaw();
    assert!(grown < MOST_MEMORY, "{grown} bytes more");

    let released = i64::from(GUARDS);
    let all = async || semaphore.available_permits().await == Ok(released);
    until("all releases are carried out", LIMIT, all).await;
    client.shutdown().await.unwrap();
    assert_eq!(stored(&server, "frozen").await, [released.to_string()]);
}

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
