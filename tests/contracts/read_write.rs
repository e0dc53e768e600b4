//! The promises of both sides of a read-write lock to each other. The server is private because a test lists its keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use crate::contract::call::Call;
use crate::lock_contract::support::{Handle, LIMIT, assert_not_held, lock, lock_for, within_limit};
use crate::support::clients::connect;
use crate::support::server::RedisServer;
use redis::AsyncCommands;
use redisson_semaphore::{Client, Error, LockGuard, Result, memory};

/// A private server and two clients of it.
struct Redis {
    made: AtomicU32,
    first: Client,
    second: Client,
    server: RedisServer,
}

async fn start() -> Redis {
    let server = RedisServer::start().await;
    Redis {
        made: AtomicU32::new(0),
        first: connect(server.url()).await,
        second: connect(server.url()).await,
        server,
    }
}

/// Both sides of one lock, for several owners.
trait Sides {
    /// The sides of a new owner, which shares as little as possible with the owner before it.
    fn owner(&self) -> (Handle, Handle);
}

struct InMemory(memory::ReadWriteLock, AtomicU32);

impl Sides for InMemory {
    fn owner(&self) -> (Handle, Handle) {
        let owner = self.1.fetch_add(1, Ordering::Relaxed);
        let lock = self.0.with_owner(owner.into());
        (Arc::new(lock.read()), Arc::new(lock.write()))
    }
}

struct Doors<'a>(&'a Redis, &'static str);

impl Sides for Doors<'_> {
    fn owner(&self) -> (Handle, Handle) {
        let turn = self.0.made.fetch_add(1, Ordering::Relaxed);
        let client = if turn.is_multiple_of(2) {
            &self.0.first
        } else {
            &self.0.second
        };
        let lock = client.read_write_lock(self.1);
        (Arc::new(lock.read()), Arc::new(lock.write()))
    }
}

async fn readers_share_and_a_writer_is_alone(door: &impl Sides) {
    // A forced unlock of the other side takes nothing away from a guard, its owner's or another one's.
    let (own, writer) = door.owner();
    let guard = writer.guard().await.unwrap();
    for reader in [own, door.owner().0] {
        assert!(!reader.force_unlock().await.unwrap(), "nobody reads");
        assert!(!guard.is_lost());
    }
    guard.unlock().await.unwrap();
    let readers = [door.owner().0, door.owner().0, door.owner().0];
    let (_, writer) = door.owner();
    for reader in &readers {
        assert!(reader.try_lock().await.unwrap());
        assert!(reader.is_locked().await.unwrap() && !writer.is_locked().await.unwrap());
        assert!(!writer.try_lock().await.unwrap());
    }
    assert!(!writer.force_unlock().await.unwrap(), "nobody writes");
    for reader in &readers {
        assert!(!writer.try_lock().await.unwrap());
        assert_eq!(reader.hold_count().await.unwrap(), 1);
        reader.unlock().await.unwrap();
        assert_not_held(reader.unlock().await, reader);
    }
    assert!(writer.try_lock().await.unwrap());
    assert!(writer.is_locked().await.unwrap() && !readers[0].is_locked().await.unwrap());
    for reader in &readers {
        assert!(!reader.try_lock().await.unwrap() && !reader.force_unlock().await.unwrap());
    }
    let (_, other) = door.owner();
    assert!(!other.try_lock().await.unwrap());
    assert!(other.force_unlock().await.unwrap());
    assert_not_held(writer.unlock().await, &writer);
    assert!(readers[0].try_lock().await.unwrap() && readers[1].force_unlock().await.unwrap());
    assert_not_held(readers[0].unlock().await, &readers[0]);
}

/// Waiters behind a writer: two readers, a writer, a reader.
async fn readers_are_served_in_a_run_up_to_the_next_writer(door: &impl Sides) {
    let (_, holder) = door.owner();
    holder.lock().await.unwrap();
    let all = [
        door.owner().0,
        door.owner().0,
        door.owner().1,
        door.owner().0,
    ];
    let mut waiting = Vec::new();
    for side in &all {
        let mut call = lock(side).await;
        call.assert_waits(side).await;
        waiting.push(call);
    }
    holder.unlock().await.unwrap();
    let mut waiting = waiting.into_iter();
    for reader in [&all[0], &all[1]] {
        waiting.next().expect("four").answer().await.unwrap();
        assert!(reader.is_held().await.unwrap());
    }
    let (mut writer, mut last) = (waiting.next().expect("four"), waiting.next().expect("four"));
    all[0].unlock().await.unwrap();
    writer.assert_waits(&all[2]).await;
    // A reader that comes later waits behind the writer, though others read.
    last.assert_waits(&all[3]).await;
    assert!(
        !lock_for(&door.owner().0, Duration::from_millis(50))
            .await
            .answer()
            .await
            .unwrap()
    );
    all[1].unlock().await.unwrap();
    writer.answer().await.unwrap();
    last.assert_waits(&all[3]).await;
    all[2].unlock().await.unwrap();
    last.answer().await.unwrap();
    all[3].unlock().await.unwrap();
    assert!(!all[0].is_locked().await.unwrap());
}

/// Readers that come and go without a gap do not get in once a writer waits.
async fn a_writer_is_not_starved_by_readers(door: &impl Sides) {
    const READERS: usize = 6;
    let (first, writer) = (door.owner().0, door.owner().1);
    first.lock().await.unwrap();
    let turns = Arc::new(AtomicUsize::new(0));
    let crowd: Vec<_> = (0..READERS)
        .map(|_| {
            let (reader, turns) = (door.owner().0, Arc::clone(&turns));
            tokio::spawn(async move {
                loop {
                    let guard = reader.guard().await.unwrap();
                    turns.fetch_add(1, Ordering::SeqCst);
                    // Each hold is longer than the other readers are out.
                    for _ in 0..6 {
                        assert!(reader.is_locked().await.unwrap());
                        tokio::task::yield_now().await;
                    }
                    guard.unlock().await.unwrap();
                }
            })
        })
        .collect();
    let waiting = lock(&writer).await;
    // The writer is in the queue when this call has been answered.
    assert!(!writer.try_lock().await.unwrap());
    let before = turns.load(Ordering::SeqCst);
    first.unlock().await.unwrap();
    waiting.answer().await.unwrap();
    let since = turns.load(Ordering::SeqCst) - before;
    // Each reader may have been in, and have one more turn.
    assert!(since <= 2 * READERS, "{since} turns of readers");
    for task in crowd {
        task.abort();
        let _ = task.await;
    }
    writer.unlock().await.unwrap();
}

async fn a_writer_goes_on_as_a_reader(door: &impl Sides) {
    let ((read, write), (other, writer)) = (door.owner(), door.owner());
    write.lock().await.unwrap();
    assert!(read.try_lock().await.unwrap());
    read.lock().await.unwrap();
    assert!(read.is_locked().await.unwrap() && write.is_locked().await.unwrap());
    assert!(!other.try_lock().await.unwrap());
    let (reading, mut writing) = (lock(&other).await, lock(&writer).await);
    writing.assert_waits(&writer).await;
    write.unlock().await.unwrap();
    assert!(read.is_locked().await.unwrap() && !write.is_locked().await.unwrap());
    assert_not_held(write.unlock().await, &write);
    reading.answer().await.unwrap();
    writing.assert_waits(&writer).await;
    assert_eq!(read.hold_count().await.unwrap(), 2);
    read.unlock().await.unwrap();
    other.unlock().await.unwrap();
    writing.assert_waits(&writer).await;
    read.unlock().await.unwrap();
    writing.answer().await.unwrap();
    // A reader that wants to write would wait for itself.
    writer.unlock().await.unwrap();
    read.lock().await.unwrap();
    assert!(!write.try_lock().await.unwrap());
    read.unlock().await.unwrap();
    // The read hold is released first, and the write hold stays.
    write.lock().await.unwrap();
    read.lock().await.unwrap();
    read.unlock().await.unwrap();
    assert!(write.is_held().await.unwrap() && !other.try_lock().await.unwrap());
    write.unlock().await.unwrap();
    assert!(!write.is_locked().await.unwrap() && !read.is_locked().await.unwrap());
}

/// A reader may lock again, however many writers wait for it.
async fn a_reader_passes_writers_that_wait_for_it(door: &impl Sides) {
    let (read, _) = door.owner();
    read.lock().await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..80 {
        // Every other owner is skipped, so that all writers belong to one client. Its queue entries are fewer than its writers.
        let _ = door.owner();
        waiting.push(lock(&door.owner().1).await);
    }
    waiting[79].assert_waits(&read).await;
    read.lock().await.unwrap();
    assert_eq!(read.hold_count().await.unwrap(), 2);
    for call in waiting {
        assert!(call.abort().await.is_none());
    }
    read.unlock().await.unwrap();
    read.unlock().await.unwrap();
    let (_, write) = door.owner();
    assert!(lock_for(&write, LIMIT).await.answer().await.unwrap());
    write.unlock().await.unwrap();
}

macro_rules! sides {
    ($($case:ident,)*) => {
        mod sides {
            use super::*;

            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let redis = start().await;
                within_limit(super::$case(&Doors(&redis, stringify!($case)))).await;
            })*
        }

        mod memory_sides {
            use super::*;

            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let lock = InMemory(memory::ReadWriteLock::new("door"), AtomicU32::new(0));
                within_limit(super::$case(&lock)).await;
            })*
        }
    };
}

sides! {
    readers_share_and_a_writer_is_alone,
    readers_are_served_in_a_run_up_to_the_next_writer,
    a_writer_is_not_starved_by_readers,
    a_writer_goes_on_as_a_reader,
    a_reader_passes_writers_that_wait_for_it,
}

/// The keys in Redis, without the idempotency records.
async fn keys(redis: &Redis) -> Vec<String> {
    let mut connection = redis.server.connection().await;
    let mut keys: Vec<String> = connection.keys("*").await.unwrap();
    keys.retain(|key| !key.starts_with("redisson_rwlock_once:"));
    keys.sort();
    keys
}

/// The time to live of a key in seconds, rounded to the nearest multiple of 50. All leases are such multiples, and some time has passed.
async fn ttl(redis: &Redis, key: &str) -> i64 {
    let mut connection = redis.server.connection().await;
    let millis: i64 = connection.pttl(key).await.unwrap();
    (millis + 25_000) / 50_000 * 50
}

#[tokio::test]
async fn a_guard_is_downgraded() {
    let redis = start().await;
    let lock = redis.first.read_write_lock("door");
    let other = redis.second.read_write_lock("door");
    let writer = lock.write().guard().await.unwrap();
    let owner = writer.handle().owner().to_owned();
    let mut waiting = Call::start({
        let write = other.write();
        async move { write.guard().await }
    })
    .await;
    let handle: Handle = Arc::new(other.write());
    waiting.assert_waits(&handle).await;
    let reader = lock.downgrade(writer).await.unwrap();
    assert_eq!(reader.handle().owner(), owner);
    waiting.assert_waits(&handle).await;
    assert!(lock.read().is_locked().await.unwrap() && !lock.write().is_locked().await.unwrap());
    reader.unlock().await.unwrap();
    let writer: Result<LockGuard> = waiting.answer().await;
    // A lost guard can't be downgraded.
    assert!(lock.write().force_unlock().await.unwrap());
    let lost = other.downgrade(writer.unwrap()).await;
    assert!(matches!(lost, Err(Error::NotHeld { .. })), "{lost:?}");
    assert!(lock.write().try_lock_for(LIMIT).await.unwrap());
}

/// Each hold of a reader has a key with its own end, in any order of release. The lock ends with the longest hold.
#[tokio::test]
async fn each_hold_has_its_own_end() {
    let redis = start().await;
    let read = redis.first.read_write_lock("door").read().with_owner(7);
    let id = redis.first.id();
    let hold = |number: u32| format!("{{door}}:{id}:7:rwlock_timeout:{number}");
    let lease = |seconds| Duration::from_secs(seconds);
    for (number, seconds) in [(1, 300), (2, 100), (3, 200)] {
        read.with_lease(lease(seconds)).lock().await.unwrap();
        assert_eq!(ttl(&redis, &hold(number)).await, seconds as i64);
        assert_eq!(ttl(&redis, "door").await, 300);
    }
    let left = read.lease().remaining().unwrap().as_secs();
    assert!((275..300).contains(&left), "{left}");
    let other = redis.second.read_write_lock("door").read();
    other.with_lease(lease(50)).lock().await.unwrap();
    let first = read.with_lease(lease(400)).guard().await.unwrap();
    first.unlock().await.unwrap();
    assert_eq!(ttl(&redis, "door").await, 300);
    for left in [100, 300] {
        read.unlock().await.unwrap();
        assert!(ttl(&redis, "door").await == 300, "{left}");
    }
    assert_eq!(keys(&redis).await.len(), 3);
    read.unlock().await.unwrap();
    assert_eq!(ttl(&redis, "door").await, 50);
    other.unlock().await.unwrap();
    assert_eq!(keys(&redis).await, Vec::<String>::new());
}

/// The release of the owner's first guard leaves the time of the second guard alone.
#[tokio::test]
async fn the_first_of_two_guards_goes_first() {
    let redis = start().await;
    let read = redis.first.read_write_lock("door").read();
    let first = read
        .with_lease(Duration::from_secs(100))
        .guard()
        .await
        .unwrap();
    let owner = first.handle().owner().to_owned();
    let hold = |number: u32| format!("{{door}}:{owner}:rwlock_timeout:{number}");
    let mut connection = redis.server.connection().await;
    // As if the first guard had been taken 50 seconds earlier.
    let _: () = connection.pexpire(hold(1), 50_000).await.unwrap();
    let second = first.again().await.unwrap();
    first.unlock().await.unwrap();
    assert_eq!(keys(&redis).await, ["door".to_owned(), hold(1)]);
    assert_eq!(ttl(&redis, &hold(1)).await, 100);
    assert!(!second.is_lost());
    second.unlock().await.unwrap();
    assert_eq!(keys(&redis).await, Vec::<String>::new());
}
