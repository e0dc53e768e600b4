//! Waiters in a cluster, on both sides of a master that is cut off.

use std::time::Duration;

use crate::support::clients::{builder, served, stored};
use crate::support::cluster::{Cluster, allow, until_heard, until_listeners};
use redisson_semaphore::{ClientBuilder, RSemaphore, Result};
use tokio::task::JoinHandle;

fn of(url: String) -> ClientBuilder {
    builder(url).retry_window(Duration::from_secs(60))
}

/// One client hears from the old master only, and the other client has left that master.
#[tokio::test]
async fn waiters_on_both_sides_of_a_master_that_is_cut_off_are_served() {
    let cluster = Cluster::start().await;
    let name = &cluster.name_at(0, "cut-off").await;
    let (old, new) = (&cluster.servers[0], &cluster.servers[3]);
    allow(&cluster.servers, "late", "on >pw ~* &* +@all").await;
    let late = format!("redis+cluster://late:pw@127.0.0.1:{}", old.port());
    let (late, early) = (of(late).connect().await, of(cluster.url()).connect().await);
    let clients = [late.unwrap(), early.unwrap()];
    let ids = clients.each_ref().map(|client| client.id().to_owned());
    let [late, early] = clients.each_ref().map(|client| client.semaphore(name));
    early.try_set_permits(5).await.unwrap();
    let guard = early.permit(5).await.unwrap();
    let [first, second] = [in_line(&late).await, in_line(&late).await];
    let others = [in_line(&early).await, in_line(&early).await];
    until_listeners(old, name, 1).await;
    for id in &ids {
        let own = format!("redisson_sc_queue:{{{name}}}:{id}");
        until_heard(old, "SHARDNUMSUB", &own, 1).await;
    }
    cluster.until_copied(3, name, "0").await;

    // Only the old master tells this client which node has which slot.
    allow(&cluster.servers[1..], "late", "-cluster|slots").await;
    cluster.cut_off(0).await;
    until_listeners(new, name, 1).await;
    guard.release().await.unwrap();
    for waiter in others {
        served(waiter).await;
    }
    assert_eq!(stored(new, name).await, ["3"]);
    // The old master goes on serving clients that do not know the new master.
    assert_eq!(stored(old, name).await, ["0"]);
    late.release(1).await.unwrap();
    served(first).await;
    assert_eq!(stored(old, name).await, ["0"]);
    assert_eq!(stored(new, name).await, ["3"]);
    assert!(!second.is_finished());

    allow(&cluster.servers[1..], "late", "+cluster|slots").await;
    served(second).await;
    assert_eq!(stored(new, name).await, ["2"]);
    // All five permits come back, and the one that was released without being held.
    let (two, more) = tokio::join!(early.release(2), late.release(2));
    two.and(more).unwrap();
    assert_eq!(stored(new, name).await, ["6"]);
    // The old master still answers, and a new client asks it again.
    let seeds = [old, &cluster.servers[1]].map(|server| format!("127.0.0.1:{}", server.port()));
    let fresh = of(format!("redis+cluster://{}", seeds.join(",")));
    let fresh = fresh.connect().await.unwrap().semaphore(name);
    for _ in 0..30 {
        fresh.release(1).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        early.acquire(1).await.unwrap();
    }
    assert_eq!(stored(new, name).await, ["6"]);
    assert_eq!(stored(old, name).await, ["0"]);
}

/// `acquire` in a task whose first request has been answered: it waits.
async fn in_line(semaphore: &RSemaphore) -> JoinHandle<Result<()>> {
    let call = semaphore.clone();
    let task = tokio::spawn(async move { call.acquire(1).await });
    tokio::task::yield_now().await;
    semaphore.available_permits().await.unwrap();
    task
}
