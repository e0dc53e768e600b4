//! Calls on locks that are dropped after every number of polls: nothing stays locked, nobody is left asleep.

use std::time::Duration;

use crate::served::served;
use crate::support::polls::polled;
use crate::support::server::RedisServer;
use crate::support::waiters::until;
use redisson_semaphore::{Client, Error, RLock, Result};
use tokio::task::{JoinHandle, yield_now};

const LIMIT: Duration = Duration::from_secs(20);

async fn connect(url: String) -> Client {
    Client::builder(url)
        .response_timeout(Duration::from_millis(100))
        .safety_interval(Duration::from_secs(3600))
        .connect()
        .await
        .expect("the server runs")
}

/// `lock` in a task that has been polled once.
async fn locking(lock: &RLock) -> JoinHandle<Result<()>> {
    let lock = lock.clone();
    let task = tokio::spawn(async move { lock.lock().await });
    yield_now().await;
    task
}

/// The lock comes free by itself, in Redis, too.
async fn until_free(lock: &RLock) {
    until("the lock is free", LIMIT, async || {
        !lock.is_locked().await.unwrap()
    })
    .await;
}

/// More polls than any call takes that is answered at all.
const MANY: u32 = 12;

/// A waiter is dropped at every moment while the holder unlocks, in every way to wait; those behind it are served.
#[tokio::test]
async fn dropped_while_it_is_handed_the_lock() {
    let server = RedisServer::start().await;
    let (client, other) = (connect(server.url()).await, connect(server.url()).await);
    for polls in 0..MANY {
        for holds_here in [false, true] {
            for way in 0..4 {
                let name = format!("handed-{polls}-{holds_here}-{way}");
                let holder = if holds_here { &client } else { &other }.lock(&name);
                let dropped = client.lock(&name);
                holder.lock().await.unwrap();
                let waits = async {
                    match way {
                        0 => polled(dropped.lock(), polls).await.map(|_| true),
                        1 => polled(dropped.guard(), polls).await.map(|_| false),
                        2 => polled(dropped.try_lock_for(LIMIT), polls)
                            .await
                            .map(Result::unwrap),
                        // The time is over in the middle of it.
                        _ => polled(dropped.try_lock_for(Duration::from_millis(1)), polls)
                            .await
                            .map(Result::unwrap),
                    }
                };
                let (behind, far) = (client.lock(&name), other.lock(&name));
                let unlocks = async {
                    yield_now().await;
                    let waiting = (locking(&behind).await, locking(&far).await);
                    holder.unlock().await.unwrap();
                    waiting
                };
                // A call that is not woken any more is dropped all the same.
                let waits = async {
                    tokio::select! {
                        taken = waits => taken,
                        () = tokio::time::sleep(Duration::from_millis(20)) => None,
                    }
                };
                let (taken, (one, two)) = tokio::join!(waits, unlocks);
                if taken == Some(true) {
                    dropped.unlock().await.unwrap();
                }
                let one = async {
                    served(&format!("{name}: the neighbour"), one).await;
                    behind.unlock().await.unwrap();
                };
                let two = async {
                    served(&format!("{name}: the other client"), two).await;
                    far.unlock().await.unwrap();
                };
                tokio::join!(one, two);
                until_free(&dropped).await;
                let error = dropped.unlock().await.unwrap_err();
                assert!(matches!(error, Error::NotHeld { .. }), "{name}: {error}");
            }
        }
    }
}

/// An owner whose clones come and go: the holds of those who stay are counted right.
#[tokio::test]
async fn clones_of_one_owner_that_are_dropped_leave_the_others_alone() {
    let server = RedisServer::start().await;
    let client = connect(server.url()).await;
    for polls in 0..MANY {
        let lock = client.lock(&format!("clones-{polls}"));
        lock.lock().await.unwrap();
        let clone = lock.clone();
        if polled(clone.lock(), polls).await.is_some() {
            lock.unlock().await.unwrap();
        }
        until("one hold is left", LIMIT, async || {
            lock.hold_count().await.unwrap() == 1
        })
        .await;
        assert!(!lock.lease().is_lost());
        lock.unlock().await.unwrap();
        assert!(!lock.is_locked().await.unwrap());
    }
}

/// A clone that waited when its owner got the lock by another one does not wait any more.
#[tokio::test]
async fn clones_of_the_holder_do_not_wait() {
    let server = RedisServer::start().await;
    let (client, other) = (connect(server.url()).await, connect(server.url()).await);
    let (holder, near) = (other.lock("clones"), client.lock("clones"));
    let lock = client.lock("clones");
    holder.lock().await.unwrap();
    let first = locking(&lock).await;
    let between = locking(&near).await;
    let second = locking(&lock).await;
    holder.unlock().await.unwrap();
    served("the first", first).await;
    served("its clone, behind another owner", second).await;
    assert_eq!(lock.hold_count().await.unwrap(), 2);
    assert!(!between.is_finished());
    lock.unlock().await.unwrap();
    lock.unlock().await.unwrap();
    served("the other owner", between).await;
    near.unlock().await.unwrap();
}

/// What is owed to nobody and was not sent is not sent when its caller has gone.
#[tokio::test]
async fn a_lock_is_not_forced_for_a_caller_who_has_gone() {
    let mut server = RedisServer::options().appendonly().start().await;
    let client = Client::builder(server.url())
        .retry_window(Duration::from_secs(1))
        .connect()
        .await
        .unwrap();
    let locks = [client.lock("forced"), client.lock("queued")];
    let peer = Client::connect(server.url()).await.unwrap();
    for lock in &locks {
        let held = peer.lock(lock.name());
        held.with_lease(Duration::from_secs(3600))
            .lock()
            .await
            .unwrap();
    }
    server.kill().await;
    client.semaphore("other").exists().await.unwrap_err();
    let asked = locks[1].clone();
    let first = tokio::spawn(async move { asked.is_locked().await });
    yield_now().await;
    for lock in &locks {
        assert!(polled(lock.force_unlock(), 1).await.is_none());
    }
    server.restart().await;
    let _ = first.await.unwrap();
    for lock in &locks {
        let locked = async || lock.is_locked().await.ok();
        until("the client is back", LIMIT, async || {
            locked().await.is_some()
        })
        .await;
        assert_eq!(locked().await, Some(true), "{}", lock.name());
    }
}
