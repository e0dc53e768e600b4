//! The calls of code without a runtime: the same answers, guards that give back, and a thread that ends.

use std::time::Duration;

use crate::support::clients::{LIMIT, builder, stored};
use crate::support::server::RedisServer;
use crate::support::waiters::until;
use redisson_semaphore::blocking::{Client, CountDownLatch, LeasedSemaphore, Lock, Semaphore};
use redisson_semaphore::{Error, Lock as _, memory};
use tokio::runtime::Runtime;

/// The server, and the runtime that looks after it.
fn server() -> (Runtime, RedisServer) {
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(RedisServer::start());
    (runtime, server)
}

fn connect(server: &RedisServer) -> Client {
    Client::with(builder(server.url())).unwrap()
}

/// How many clients have their threads.
fn threads() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |thread: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(thread.ok()?.path().join("comm")).ok()
    };
    let names = threads.filter_map(name);
    names.filter(|name| name.trim() == "redisson-sem").count()
}

/// All in one test, as threads are counted.
#[test]
fn threads_share_permits_and_the_client_has_one_that_ends() {
    let (runtime, server) = server();
    let client = connect(&server);
    assert_eq!(threads(), 1);
    everything(&client);
    let seats = client.semaphore("crowd");
    assert!(seats.try_set_permits(2).unwrap());
    let inside = std::sync::atomic::AtomicI32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let seat = seats.permit(1).unwrap();
                    let others = inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    assert!(others < 2);
                    inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    drop(seat);
                }
            });
        }
    });
    let last = seats.permit(2).unwrap();
    drop((client, seats));
    // The guard is the last owner of the client, and is dropped on another thread.
    std::thread::spawn(move || drop(last)).join().unwrap();
    runtime.block_on(async {
        until("the thread ends", LIMIT, async || threads() == 0).await;
        assert_eq!(stored(&server, "crowd").await, ["2"]);
    });
    twins_outlive_their_client(&runtime, &server);
    refusals(&server);
}

fn everything(client: &Client) {
    let seats = client.semaphore("seats");
    assert!(seats.try_set_permits(3).unwrap());
    let mut three = seats.permit_for(3, LIMIT).unwrap().unwrap();
    assert!(seats.try_permit(1).unwrap().is_none());
    let moment = Duration::from_millis(5);
    assert!(seats.permit_for(1, moment).unwrap().is_none());
    let one = three.split(1).unwrap();
    three.release().unwrap();
    assert_eq!(seats.available_permits().unwrap(), 2);
    assert_eq!(one.forget(), 1);
    seats.release(1).unwrap();
    assert_eq!(client.stats().granted, 1);

    let door = client.fenced_lock("door");
    let guard = door.guard().unwrap();
    assert_eq!(guard.token(), Some(1));
    assert!(!client.lock("door").try_lock().unwrap());
    assert!(door.try_guard().unwrap().is_none());
    let inner = guard.again().unwrap();
    guard.unlock().unwrap();
    assert!(door.is_locked().unwrap());
    inner.unlock().unwrap();
    assert!(!door.is_locked().unwrap());
    assert!(matches!(door.unlock(), Err(Error::NotHeld { .. })));

    let turn = client.fair_lock("turn");
    let guard = turn.guard().unwrap();
    assert!(
        !client
            .fair_lock("turn")
            .try_lock_for(Duration::from_millis(5))
            .unwrap()
    );
    guard.unlock().unwrap();
    assert!(!turn.is_locked().unwrap());

    let prices = client.read_write_lock("prices");
    let guard = prices.read().guard().unwrap();
    assert!(!prices.write().try_lock().unwrap());
    guard.unlock().unwrap();
    prices.write().guard().unwrap().unlock().unwrap();

    let done = client.count_down_latch("done");
    assert!(done.try_set_count(1).unwrap());
    assert!(!done.wait_for(moment).unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| done.wait().unwrap());
        done.count_down().unwrap();
    });

    let places = client.asynchronous().slot_semaphore("places", 1);
    let places = LeasedSemaphore::new(client, places);
    let place = places.permit().unwrap();
    assert_eq!((place.slot(), place.is_lost()), (Some(1), false));
    assert!(places.try_permit().unwrap().is_none());
    assert!(place.release().unwrap());

    let twin = Semaphore::new(client, memory::Semaphore::with_permits("twin", 1));
    let permit = twin.permit(1).unwrap();
    assert!(!twin.try_acquire_for(1, moment).unwrap());
    drop(permit);
    assert_eq!(twin.available_permits().unwrap(), 1);
    let latch = CountDownLatch::new(client, memory::CountDownLatch::new("twin"));
    assert!(latch.wait_for(moment).unwrap());

    let seats = client.asynchronous().semaphore("seats");
    assert!(client.run(seats.delete()).unwrap());
}

/// A wait for an in-memory implementation needs the client's thread, though only the blocking wrapper or a guard still has the client.
fn twins_outlive_their_client(runtime: &Runtime, server: &RedisServer) {
    let (wait, kept) = (Duration::from_millis(100), Duration::from_secs(10));
    let client = connect(server);
    let seats = Semaphore::new(&client, memory::Semaphore::new("twin"));
    let door = memory::Lock::new("twin");
    let other = Lock::new(&client, door.with_owner(1));
    let places = memory::LeasedSemaphore::new("twin", 1, Some(kept));
    let shell = LeasedSemaphore::new(&client, places.clone());
    let done = CountDownLatch::new(&client, memory::CountDownLatch::new("twin"));
    assert!(done.try_set_count(1).unwrap());
    assert!(runtime.block_on(door.try_lock()).unwrap());
    let place = shell.permit().unwrap();
    drop(client);
    assert!(!seats.try_acquire_for(1, wait).unwrap());
    drop(seats);
    assert!(!other.try_lock_for(wait).unwrap());
    drop(other);
    assert!(!done.wait_for(wait).unwrap());
    drop(done);
    assert!(shell.permit_for(wait).unwrap().is_none());
    drop(shell);

    places.stall();
    let lease = place.lease().clone();
    let release = std::thread::spawn(|| place.release());
    runtime.block_on(until("it is on its way", LIMIT, async || {
        lease.remaining() < Some(kept)
    }));
    places.recover();
    assert_eq!(release.join().unwrap(), Ok(true));
    runtime.block_on(until("the thread ends", LIMIT, async || threads() == 0));
}

fn refusals(server: &RedisServer) {
    let client = connect(server);
    client.shutdown().unwrap();
    let told = client.semaphore("seats").release(1).unwrap_err();
    assert!(matches!(told, Error::ShutDown { .. }), "{told}");
    let told = Client::connect("http://127.0.0.1").unwrap_err();
    assert!(told.is_invalid_argument(), "{told}");
}
