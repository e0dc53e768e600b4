//! The string lock of the classic recipes, as every `Lock` but for one thing: it is not reentrant.

use std::sync::Arc;
use std::time::Duration;

use crate::support::clients::LIMIT;
use crate::support::server::RedisServer;
use redis::AsyncCommands;
use redisson_semaphore::{Client, Error, Lock};
use tokio::time::timeout;

const SHORT: Duration = Duration::from_secs(4);
const LONG: Duration = Duration::from_secs(3600);

struct World {
    first: Client,
    second: Client,
    server: RedisServer,
}

impl World {
    async fn new() -> World {
        let server = RedisServer::start().await;
        let connect = async || Client::connect(server.url()).await.unwrap();
        World {
            first: connect().await,
            second: connect().await,
            server,
        }
    }

    /// Handles of two owners in two processes, as far as they can tell. The check is too rare to serve a waiter.
    fn locks(&self, name: &str) -> [Arc<dyn Lock>; 2] {
        [&self.first, &self.second].map(|client| -> Arc<dyn Lock> {
            Arc::new(client.string_lock(name).check_interval(LONG))
        })
    }
}

fn is_not_held(result: Result<(), Error>, lock: &Arc<dyn Lock>) -> bool {
    matches!(result, Err(Error::NotHeld { name, owner, .. }) if name == lock.name() && owner == lock.owner())
}

/// Handles with other keys stand for other locks, and hold them apart.
#[tokio::test]
async fn handles_with_other_keys_are_other_owners() {
    let world = World::new().await;
    let base = world.first.string_lock("keys");
    let [one, two] = ["one", "two"].map(|key| base.clone().key(key));
    one.lock().await.unwrap();
    two.lock().await.unwrap();
    one.unlock().await.unwrap();
    assert!(!one.is_locked().await.unwrap() && two.is_held().await.unwrap());
    two.unlock().await.unwrap();
}

/// The expiry for a lock that has none is its own setting, whichever was set first.
#[tokio::test]
async fn a_missing_expiry_is_not_the_timeout() {
    let world = World::new().await;
    let mut redis = world.server.connection().await;
    let () = redis.set("lock:import", "py").await.unwrap();
    let lock = world.first.string_lock("import");
    let lock = lock.missing_expiry(Some(SHORT)).timeout(LONG);
    assert!(!lock.try_lock().await.unwrap());
    let left: u128 = redis.pttl("lock:import").await.unwrap();
    assert!(left <= SHORT.as_millis(), "{left}");
}

#[tokio::test]
async fn what_stands_in_the_key() {
    let world = World::new().await;
    let mut redis = world.server.connection().await;
    let [one, _] = world.locks("key");
    let mut ids = std::collections::HashSet::new();
    for _ in 0..3 {
        one.lock().await.unwrap();
        let id: String = redis.get("lock:key").await.unwrap();
        assert!(id.len() == 36 && ids.insert(id), "not a new one");
        let left: i64 = redis.pttl("lock:key").await.unwrap();
        assert!((9_000..=10_000).contains(&left), "{left}");
        one.unlock().await.unwrap();
        assert!(!redis.exists::<_, bool>("lock:key").await.unwrap());
    }
}

#[tokio::test]
async fn guards_are_not_entered_again() {
    let world = World::new().await;
    let [lock, other] = world.locks("guards");
    let guard = lock.guard().await.unwrap();
    assert_ne!(guard.handle().owner(), lock.owner());
    assert!(!lock.try_lock().await.unwrap());
    let owner = guard.handle();
    assert!(is_not_held(guard.again().await.map(drop), owner));
    assert!(!guard.is_lost() && owner.is_held().await.unwrap());
    // Lost unnoticed, and free: it is not taken anew.
    assert!(other.force_unlock().await.unwrap());
    assert!(is_not_held(guard.again().await.map(drop), owner));
    assert!(other.try_lock_for(LIMIT).await.unwrap());
}

/// The key has vanished, and the same handle has locked again.
#[tokio::test]
async fn a_new_hold_of_a_handle_tells_that_the_former_one_is_lost() {
    let world = World::new().await;
    let mut redis = world.server.connection().await;
    let [lock, _] = world.locks("former");
    let former = lock.hold(None).await.unwrap().expect("it is free");
    let () = redis.del("lock:former").await.unwrap();
    let hold = lock.hold(None).await.unwrap().expect("it is free");
    assert!(former.lease().is_lost() && !hold.lease().is_lost());
}

/// Nobody could unlock it any more.
#[tokio::test]
async fn a_forgotten_guard_ends_with_its_time() {
    let world = World::new().await;
    let short = world.first.string_lock("forgotten").timeout(SHORT);
    let [_, other] = world.locks("forgotten");
    let guard = short.guard().await.unwrap();
    let owner = Arc::clone(guard.handle());
    let _ = guard.forget();
    let tried = other.try_lock_for(SHORT * 3 / 2).await;
    assert_eq!(tried, Ok(false), "it is not refreshed");
    owner.unlock().await.unwrap();
    let _ = short.guard().await.unwrap().forget();
    assert!(!other.try_lock().await.unwrap());
    timeout(LIMIT, other.lock())
        .await
        .expect("it ends")
        .unwrap();
}
