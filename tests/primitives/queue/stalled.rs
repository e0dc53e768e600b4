//! A client that let a grant run out leaves the queue with all of its waiters, until it is heard from: others do not wait for each of them.

use futures::future::BoxFuture;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, RPermitExpirableSemaphore, Result};
use tokio::task::JoinHandle;

use super::far;
use crate::support::channel::Channel;
use crate::support::clients::{LIMIT, connect, served, start_controlled};
use crate::support::proxy::{Fate, Proxy};
use crate::support::server::RedisServer;
use crate::support::waiters::{until, until_in_queue, until_subscribers};

const NAME: &str = "lent";

/// Takes one, for good; a reader lets it go at once.
type Take = fn(Client) -> BoxFuture<'static, Result<()>>;

fn lock(client: Client) -> BoxFuture<'static, Result<()>> {
    let lock = client.lock(NAME);
    Box::pin(async move { lock.lock().await })
}

fn read(client: Client) -> BoxFuture<'static, Result<()>> {
    let lock = client.read_write_lock(NAME);
    Box::pin(async move { lock.read().guard().await.map(drop) })
}

fn write(client: Client) -> BoxFuture<'static, Result<()>> {
    let lock = client.read_write_lock(NAME);
    Box::pin(async move { lock.write().lock().await })
}

fn permit(client: Client) -> BoxFuture<'static, Result<()>> {
    let semaphore = client.permit_expirable_semaphore(NAME);
    Box::pin(async move { semaphore.acquire().await.map(drop) })
}

fn guard(client: Client) -> BoxFuture<'static, Result<()>> {
    let semaphore = client.permit_expirable_semaphore(NAME);
    Box::pin(async move { semaphore.permit().await.map(drop) })
}

/// A queue of callers of a client that hears nothing any more, and of another one.
struct Stalled {
    server: RedisServer,
    control: MultiplexedConnection,
    proxy: Proxy,
    clients: [Client; 2],
    queue: String,
    /// The messages to the client that hears nothing.
    messages: Channel,
    waiting: u64,
}

impl Stalled {
    /// The key of its queue begins so.
    async fn start(prefix: &str) -> Stalled {
        let (server, control) = start_controlled().await;
        let (proxy, stalled) = far(&server).await;
        let clients = [stalled, connect(server.url()).await];
        let queue = format!("{prefix}:{{{NAME}}}");
        let own = format!("{queue}:{}", clients[0].id());
        let messages = Channel::subscribe(&server, &own).await;
        Stalled {
            server,
            control,
            proxy,
            clients,
            queue,
            messages,
            waiting: 0,
        }
    }

    /// A caller of this client that stands in the queue.
    async fn wait(&mut self, client: usize, take: Take) -> JoinHandle<Result<()>> {
        let task = tokio::spawn(take(self.clients[client].clone()));
        self.waiting += 1;
        until_in_queue(&mut self.control, &self.queue, self.waiting).await;
        task
    }

    /// The same with `count` permits with ids. They are taken, and given back by the handle, whose client is behind the proxy.
    async fn of_permits(count: u32) -> (Stalled, Proxy, RPermitExpirableSemaphore, Vec<String>) {
        let case = Stalled::start("redisson_sc_leased_queue").await;
        let (proxy, client) = far(&case.server).await;
        let permits = client.permit_expirable_semaphore(NAME);
        permits.try_set_permits(count).await.unwrap();
        let held = permits.acquire_many(count).await.unwrap();
        let ids = held.iter().map(|held| held.id().to_owned()).collect();
        (case, proxy, permits, ids)
    }

    /// The requests of the first client's waiters for permits are answered.
    async fn settle_permits(&self) {
        let other = self.clients[0].permit_expirable_semaphore(NAME);
        assert!(other.try_acquire().await.unwrap().is_none());
    }

    /// From now on the first client hears no message.
    async fn deafen(&mut self) {
        let own = format!("{}:{}", self.queue, self.clients[0].id());
        until_subscribers(&mut self.control, &own, 2).await;
        self.proxy.deafen();
        self.messages.until_marker().await;
    }

    /// It was granted something so often, and has left the queue then.
    async fn assert_granted(&mut self, times: usize) {
        let messages = self.messages.until_marker().await;
        let words: Vec<_> = messages.iter().map(|one| &one.payload[..4]).collect();
        let mut expected = vec!["gran"; times];
        expected.push("gone");
        assert_eq!(words, expected);
    }
}

#[tokio::test]
async fn of_a_lock() {
    let mut case = Stalled::start("redisson_lock_waiters").await;
    let holder = connect(case.server.url()).await.lock(NAME);
    holder.lock().await.unwrap();
    case.wait(0, lock).await;
    case.wait(0, lock).await;
    // Answered behind the requests of both.
    assert!(!case.clients[0].lock(NAME).try_lock().await.unwrap());
    let third = case.wait(1, lock).await;
    case.deafen().await;
    holder.unlock().await.unwrap();
    served(third).await;
    case.assert_granted(1).await;
}

/// Several clients are granted it together.
#[tokio::test]
async fn of_a_read_write_lock() {
    let mut case = Stalled::start("redisson_rwlock_waiters").await;
    let lock = connect(case.server.url()).await.read_write_lock(NAME);
    let writer = lock.write();
    writer.lock().await.unwrap();
    case.wait(0, read).await;
    let reader = case.wait(1, read).await;
    case.wait(0, write).await;
    let other = case.clients[0].read_write_lock(NAME);
    assert!(!other.write().try_lock().await.unwrap());
    let fourth = case.wait(1, write).await;
    case.deafen().await;
    writer.unlock().await.unwrap();
    served(reader).await;
    served(fourth).await;
    case.assert_granted(1).await;
}

/// As a JVM does with each of its calls: what has ended is free.
const RECLAIM: &str = "local time = redis.call('TIME') \
     local over = redis.call('ZRANGEBYSCORE', KEYS[2], 0, time[1] * 1000 + math.floor(time[2] / 1000)) \
     if #over == 0 then return 0 end \
     redis.call('ZREM', KEYS[2], unpack(over)) \
     redis.call('PUBLISH', KEYS[3], redis.call('INCRBY', KEYS[1], #over)) \
     return #over";

#[tokio::test]
async fn of_permits_that_a_jvm_frees() {
    let (mut case, proxy, permits, held) = Stalled::of_permits(1).await;
    case.wait(0, permit).await;
    case.wait(0, permit).await;
    case.settle_permits().await;
    let third = case.wait(1, permit).await;
    case.deafen().await;
    let mut redis = case.server.connection().await;
    // The script that looks whether the grant has ended is later than the JVM.
    proxy.at_script(2, Fate::HoldRequest);
    permits.release(&held[0]).await.unwrap();
    until("the grant has ended", LIMIT, async || {
        let mut reclaim = redis::cmd("EVAL");
        reclaim.arg(&[RECLAIM, "3", NAME, "{lent}:timeout", "redisson_sc:{lent}"]);
        reclaim.query_async(&mut redis).await == Ok(1)
    })
    .await;
    proxy.until_struck(1).await;
    proxy.let_go();
    served(third).await;
    case.assert_granted(1).await;
}

/// The first of them ends late, the others soon.
#[tokio::test]
async fn of_several_permits() {
    let (mut case, _proxy, permits, held) = Stalled::of_permits(2).await;
    case.wait(0, guard).await;
    for _ in 0..3 {
        case.wait(0, permit).await;
    }
    case.settle_permits().await;
    let last = case.wait(1, permit).await;
    case.deafen().await;
    for id in &held {
        permits.release(id).await.unwrap();
    }
    served(last).await;
    case.assert_granted(2).await;
}
