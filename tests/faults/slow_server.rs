//! Calls on a frozen server that nobody waits for do not fill the memory. Deferred calls are carried out when the server answers again.

use std::pin::pin;
use std::time::Duration;

use crate::support::clients::{LIMIT, builder, stored};
use crate::support::server::RedisServer;
use crate::support::waiters::until;
use futures::future::join_all;

/// What a frozen server may cost in all, however many calls are made meanwhile.
const MOST_MEMORY: u64 = 48 << 20;

/// This process's memory in use, in bytes.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.expect("it is told").trim().trim_end_matches(" kB");
    kilobytes.parse::<u64>().expect("a number") << 10
}

/// Polls once, which queues the call, and drops it.
async fn abandon<T>(call: impl Future<Output = T>) {
    let mut call = pin!(call);
    std::future::poll_fn(|cx| std::task::Poll::Ready(call.as_mut().poll(cx).is_ready())).await;
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
        abandon(semaphore.try_acquire(1 + round % 7)).await;
        abandon(semaphore.acquire(1 + round % 7)).await;
        abandon(semaphore.available_permits()).await;
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
