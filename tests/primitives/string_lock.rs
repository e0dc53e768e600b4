//! The string lock of the classic recipes, as every `Lock` but for one thing: it is not reentrant.

use std::sync::Arc;
use std::time::Duration;

use crate::support::server::RedisServer;
use redis::AsyncCommands;
use redisson_semaphore::{Client, Error, Lock, RemainingTtl};
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_secs(2);
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

    /// Handles of two owners in two processes, as far as they can tell; nobody is served by a check.
    fn locks(&self, name: &str) -> [Arc<dyn Lock>; 2] {
        [&self.first, &self.second].map(|client| -> Arc<dyn Lock> {
            Arc::new(client.string_lock(name).check_interval(LONG))
        })
    }
}

async fn in_time<T>(call: impl Future<Output = T>) -> T {
    timeout(LIMIT, call).await.expect("it hangs")
}

/// `lock` in a task that stands in line when this returns.
async fn waiter(lock: &Arc<dyn Lock>) -> tokio::task::JoinHandle<()> {
    let waiting = Arc::clone(lock);
    let task = tokio::spawn(async move { waiting.lock().await.unwrap() });
    tokio::task::yield_now().await;
    // Answered behind its own question.
    lock.is_locked().await.unwrap();
    lock.is_locked().await.unwrap();
    task
}

fn is_not_held(result: Result<(), Error>, lock: &Arc<dyn Lock>) -> bool {
    matches!(result, Err(Error::NotHeld { name, owner, .. }) if name == lock.name() && owner == lock.owner())
}

#[tokio::test]
async fn it_excludes_others_and_its_own_owner() {
    let world = World::new().await;
    let [one, two] = world.locks("a");
    assert!(is_not_held(one.unlock().await, &one));
    one.lock().await.unwrap();
    for lock in [&one, &two] {
        assert!(!lock.try_lock().await.unwrap());
        assert!(!lock.try_lock_for(SHORT).await.unwrap());
        assert!(lock.is_locked().await.unwrap());
    }
    assert_eq!(
        (
            one.hold_count().await.unwrap(),
            two.hold_count().await.unwrap()
        ),
        (1, 0)
    );
    assert!(one.is_held().await.unwrap() && Arc::clone(&one).is_held().await.unwrap());
    assert_ne!(one.owner(), two.owner());
    assert!(is_not_held(two.unlock().await, &two));
    Arc::clone(&one).unlock().await.unwrap();
    assert!(is_not_held(one.unlock().await, &one));
    assert!(!two.is_locked().await.unwrap());
    assert_eq!(one.remaining_ttl().await.unwrap(), RemainingTtl::Missing);
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
async fn an_unlock_wakes_those_who_wait_in_order() {
    let world = World::new().await;
    let [one, two] = world.locks("order");
    let others = world.locks("order");
    let mut guard = Some(one.guard().await.unwrap());
    let mut waiters = Vec::new();
    for lock in [&two, &others[0], &others[1]] {
        waiters.push((Arc::clone(lock), waiter(lock).await));
    }
    for place in 0..waiters.len() {
        match guard.take() {
            Some(guard) => guard.unlock().await.unwrap(),
            None => waiters[place - 1].0.unlock().await.unwrap(),
        }
        in_time(&mut waiters[place].1).await.unwrap();
        assert!(waiters[place].0.is_held().await.unwrap());
        assert!(
            waiters[place + 1..]
                .iter()
                .all(|(_, next)| !next.is_finished())
        );
    }
}

#[tokio::test]
async fn it_is_kept_without_a_lease_and_ends_with_one() {
    let world = World::new().await;
    let short: Arc<dyn Lock> = Arc::new(world.first.string_lock("kept").timeout(SHORT));
    let [_, two] = world.locks("kept");
    let guard = short.guard().await.unwrap();
    assert!(!two.try_lock_for(SHORT * 3).await.unwrap(), "not refreshed");
    assert!(!guard.is_lost());
    guard.unlock().await.unwrap();

    short.with_lease(LONG).lock().await.unwrap();
    let left = short.remaining_ttl().await.unwrap();
    assert!(matches!(left, RemainingTtl::Expires(left) if left > LONG - LIMIT));
    short.unlock().await.unwrap();

    two.with_lease(SHORT).lock().await.unwrap();
    let lease = two.lease();
    in_time(short.lock()).await.unwrap();
    in_time(lease.lost()).await;
    assert!(is_not_held(two.unlock().await, &two));
    assert!(short.is_held().await.unwrap());
}

#[tokio::test]
async fn a_lock_that_is_forced_open_is_lost() {
    let world = World::new().await;
    let one: Arc<dyn Lock> = Arc::new(world.first.string_lock("forced").timeout(SHORT));
    let [_, two] = world.locks("forced");
    assert!(!two.force_unlock().await.unwrap());
    let guard = one.guard().await.unwrap();
    let waiting = waiter(&two).await;
    assert!(two.force_unlock().await.unwrap());
    in_time(waiting).await.unwrap();
    in_time(guard.lost()).await;
    let owner = Arc::clone(guard.handle());
    assert!(is_not_held(guard.unlock().await, &owner));
    assert!(
        two.is_held().await.unwrap(),
        "somebody else's was given back"
    );
}

/// One owner who has lost it without knowing takes it again: what it held before is lost, not given back.
#[tokio::test]
async fn an_owner_who_takes_it_anew_forgets_what_it_held() {
    let world = World::new().await;
    let [one, two] = world.locks("anew");
    one.lock().await.unwrap();
    let before = one.lease();
    assert!(two.force_unlock().await.unwrap());
    one.lock().await.unwrap();
    assert!(before.is_lost() && !one.lease().is_lost());
    one.unlock().await.unwrap();
    assert!(!two.is_locked().await.unwrap());
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
async fn dropped_at_any_time_it_is_given_back() {
    let world = World::new().await;
    let [one, two] = world.locks("dropped");
    for round in 0..60_u64 {
        let waiting = Duration::from_micros(round * 20);
        let _ = timeout(waiting, one.guard()).await;
        let guard = in_time(two.guard()).await.unwrap();
        let waiter = waiter(&one).await;
        waiter.abort();
        let _ = waiter.await;
        drop(guard);
    }
    let last = in_time(one.guard()).await.unwrap();
    last.unlock().await.unwrap();
}

#[tokio::test]
async fn a_guard_of_a_hold_that_was_given_back_releases_nothing() {
    let world = World::new().await;
    let [lock, other] = world.locks("given-back");
    let dropped = lock.guard().await.unwrap();
    let owner = Arc::clone(dropped.handle());
    owner.unlock().await.unwrap();
    owner.lock().await.unwrap();
    drop(dropped);
    // Answered behind what the guard asks for, if anything.
    assert!(owner.is_held().await.unwrap());
    owner.unlock().await.unwrap();
    let told = lock.guard().await.unwrap();
    let owner = Arc::clone(told.handle());
    owner.unlock().await.unwrap();
    owner.lock().await.unwrap();
    assert!(is_not_held(told.unlock().await, &owner));
    assert!(owner.is_held().await.unwrap());
    assert!(!other.try_lock().await.unwrap());
}

#[tokio::test]
async fn guards_exclude_each_other_and_are_not_entered_again() {
    let world = World::new().await;
    let [lock, other] = world.locks("guards");
    let guard = lock.guard().await.unwrap();
    assert_ne!(guard.handle().owner(), lock.owner());
    for handle in [&lock, &other] {
        assert!(handle.try_guard().await.unwrap().is_none());
        assert!(!handle.try_lock().await.unwrap());
    }
    let owner = guard.handle();
    assert!(is_not_held(guard.again().await.map(drop), owner));
    assert!(!guard.is_lost() && owner.is_held().await.unwrap());
    // Lost unnoticed, and free: it is not taken anew.
    assert!(other.force_unlock().await.unwrap());
    assert!(is_not_held(guard.again().await.map(drop), owner));
    assert!(other.try_lock_for(LIMIT).await.unwrap());
    other.unlock().await.unwrap();
    let guards = [&lock, &other, &lock].map(|handle| {
        let handle = Arc::clone(handle);
        tokio::spawn(async move { handle.guard().await.unwrap().unlock().await.unwrap() })
    });
    for guard in guards {
        in_time(guard).await.unwrap();
    }
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
    assert!(!other.try_lock_for(SHORT * 3).await.unwrap(), "refreshed");
    owner.unlock().await.unwrap();
    let _ = short.guard().await.unwrap().forget();
    assert!(!other.try_lock().await.unwrap());
    in_time(other.lock()).await.unwrap();
}
