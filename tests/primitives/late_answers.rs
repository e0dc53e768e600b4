//! Leases that are changed by calls whose answers come late: the holder counts from the moment of the sending.

use std::time::Duration;

use crate::support::clients::{LIMIT, builder};
use crate::support::proxy::{Fate, Proxy};
use crate::support::server::RedisServer;
use crate::support::waiters::until;
use redisson_semaphore::{Client, LeasedSemaphore as _};
use tokio::time::{sleep, timeout};

async fn start() -> (RedisServer, Proxy, Client) {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(&server).await;
    let client = builder(proxy.url()).response_timeout(LIMIT);
    let client = client.connect().await.unwrap();
    (server, proxy, client)
}

#[tokio::test]
async fn a_refreshed_lease_lasts_from_the_sending_on() {
    const LEASE: Duration = Duration::from_secs(60);
    const LATE: Duration = Duration::from_millis(300);
    let (_server, proxy, client) = start().await;
    let jobs = client.timestamp_semaphore("jobs", 1).timeout(LEASE);
    let guard = jobs.permit().await.unwrap();
    // The server has the script.
    assert_eq!(jobs.refresh(guard.id()).await, Ok(true));
    proxy.at_script(1, Fate::HoldReply);
    let id = guard.id().to_owned();
    let call = tokio::spawn(async move { jobs.refresh(&id).await });
    proxy.until_struck(1).await;
    sleep(LATE).await;
    proxy.let_go();
    let told = timeout(LIMIT, call).await.expect("it is answered").unwrap();
    assert_eq!(told, Ok(true));
    let left = guard.lease().remaining().expect("it has an end");
    assert!(left <= LEASE - LATE, "{left:?}");
}

#[tokio::test]
async fn a_lease_that_may_be_shortened_ends_without_an_answer() {
    const SHORT: Duration = Duration::from_millis(200);
    let (_server, proxy, client) = start().await;
    let jobs = client.permit_expirable_semaphore("jobs");
    assert_eq!(jobs.try_set_permits(1).await, Ok(true));
    let guard = jobs.permit().await.unwrap();
    proxy.at_script(1, Fate::HoldReply);
    let id = guard.id().to_owned();
    let call = tokio::spawn(async move { jobs.update_lease_time(&id, Some(SHORT)).await });
    until("its lease is over", LIMIT, async || guard.is_lost()).await;
    assert!(!call.is_finished(), "it was answered");
    proxy.let_go();
    timeout(LIMIT, call)
        .await
        .expect("it is answered")
        .unwrap()
        .unwrap();
}
