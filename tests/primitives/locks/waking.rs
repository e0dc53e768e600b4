//! Changes that no message announces: neighbours' holds that end by themselves, and locks that other programs have made.

use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use crate::locks::served;
use crate::support::clients::{LIMIT, start_controlled};
use crate::support::server::RedisServer;
use crate::support::waiters::{until_lock_queued, until_subscribers};
use redis::AsyncCommands;
use redisson_semaphore::{Client, RLock, RemainingTtl, Result};
use tokio::task::JoinHandle;

const LONG: Duration = Duration::from_secs(3600);
const CHANNEL: &str = "redisson_lock__channel:{door}";

async fn connect(url: String, safety_interval: Duration) -> Client {
    Client::builder(url)
        .lock_watchdog_timeout(LONG)
        .safety_interval(safety_interval)
        .connect()
        .await
        .expect("the server runs")
}

fn locking(lock: &RLock) -> JoinHandle<Result<()>> {
    let lock = lock.clone();
    tokio::spawn(async move { lock.lock().await })
}

/// Such a lock has no end that a waiter knows: a message wakes the waiter, or a periodic check.
#[tokio::test]
async fn a_foreign_lock_without_an_end() {
    let (server, mut redis) = start_controlled().await;
    let patient = connect(server.url(), LONG).await.lock("door");
    let curious = connect(server.url(), Duration::from_millis(300)).await;
    for lock in [patient, curious.lock("door")] {
        let _: () = redis.hset("door", "somebody:1", 1).await.unwrap();
        assert_eq!(
            lock.remaining_ttl().await.unwrap(),
            RemainingTtl::Persistent
        );
        assert!(!lock.try_lock().await.unwrap());
        assert!(lock.is_held_by_owner("somebody:1").await.unwrap());
        assert!(!lock.try_lock_for(Duration::from_millis(50)).await.unwrap());
        until_lock_queued(&mut redis, "door", 0).await;
        let waits = locking(&lock);
        until_lock_queued(&mut redis, "door", 1).await;
        until_subscribers(&mut redis, CHANNEL, 1).await;
        assert!(!waits.is_finished());
        let _: () = redis.del("door").await.unwrap();
        if lock.owner().starts_with(curious.id()) {
            served("a look", waits).await;
        } else {
            let _: () = redis.publish(CHANNEL, "0").await.unwrap();
            served("a message", waits).await;
        }
        lock.unlock().await.unwrap();
    }
}

/// A waker that makes a call on the lock itself.
struct Caller(RLock);

impl Wake for Caller {
    fn wake(self: Arc<Self>) {
        let mut call = std::pin::pin!(self.0.try_lock());
        let _ = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
}

/// A waker that is called for the loss or the renewal of a lock may make any call at once.
#[test]
fn what_is_told_of_a_lease_is_told_while_nothing_is_locked() {
    let (done, is_done) = std::sync::mpsc::channel();
    // In a thread of its own: a call that waits for itself would never come back.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(async {
            let server = RedisServer::start().await;
            let client = connect(server.url(), LONG).await;
            let other = connect(server.url(), LONG).await;
            for forced in [false, true] {
                let door = client.lock("door");
                let guard = door.guard().await.unwrap();
                let lease = guard.lease().clone();
                let mut lost = std::pin::pin!(lease.lost());
                let waker = Waker::from(Arc::new(Caller(client.lock("door"))));
                let mut context = Context::from_waker(&waker);
                assert!(lost.as_mut().poll(&mut context).is_pending());
                // The end is put off.
                guard.handle().lock().await.unwrap();
                guard.handle().unlock().await.unwrap();
                assert!(lost.as_mut().poll(&mut context).is_pending());
                if forced {
                    other.lock("door").force_unlock().await.unwrap();
                    guard.unlock().await.unwrap_err();
                } else {
                    guard.unlock().await.unwrap();
                }
                // The waker's own call may have taken it.
                client.lock("door").force_unlock().await.unwrap();
            }
            done.send(()).unwrap();
        });
    });
    is_done
        .recv_timeout(LIMIT)
        .expect("nobody waits for itself");
}
