//! Permits that were taken for somebody who needs them no more: to those who ask meanwhile it is as if they had
//! never been taken.

mod support;

use support::clients::{LIMIT, builder, served, stored};
use support::proxy::Fate;
use support::sequence::start;
use tokio::time::timeout;

/// A caller's question is under way when a release serves it within the process.
#[tokio::test]
async fn what_was_taken_for_a_caller_served_meanwhile_is_there_for_the_next_call() {
    let (server, proxy) = start().await;
    let client = builder(proxy.url())
        .response_timeout(2 * LIMIT)
        .local_hand_over(LIMIT)
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("surplus");
    semaphore.try_set_permits(4).await.unwrap();
    semaphore.acquire(3).await.unwrap();

    proxy.at_script(1, Fate::HoldReply);
    let taking = semaphore.clone();
    let taking = tokio::spawn(async move { taking.acquire(1).await });
    // The server has given it the last permit, and it has not heard of that.
    proxy.until_struck(1).await;
    assert_eq!(stored(&server, "surplus").await, ["0"]);
    semaphore.release(1).await.unwrap();
    served(taking).await;

    let draining = semaphore.clone();
    let draining = tokio::spawn(async move { draining.drain_permits().await });
    tokio::task::yield_now().await;
    proxy.deliver(1).await;
    let drained = timeout(LIMIT, draining).await.expect("it ends").unwrap();
    assert_eq!(drained, Ok(1), "four, less three");
    client.shutdown().await.unwrap();
    assert_eq!(stored(&server, "surplus").await, ["0"]);
}
