//! Releases: each call of a batch is told the truth, whatever others have done to the holders before, and those that will not be
//! made any more are named.

use std::time::Duration;

use crate::layouts::{Handle, Layout, Shape};
use crate::support::clients::{LIMIT, start_behind_a_proxy};
use crate::support::log;
use crate::support::polls::poll_once;
use crate::support::proxy::Fate;
use crate::support::server::RedisServer;
use crate::support::waiters::until;
use redis::AsyncCommands;
use redisson_semaphore::Client;
use tracing::Level;

/// Releases `ids` in one batch: that of the first call is on its way when the others are made.
async fn release_together(semaphore: &Handle, ids: [&str; 3]) -> [bool; 3] {
    let (_, first, second, third) = tokio::join!(
        semaphore.holders(),
        semaphore.release(ids[0]),
        semaphore.release(ids[1]),
        semaphore.release(ids[2]),
    );
    [first.unwrap(), second.unwrap(), third.unwrap()]
}

async fn acquire_three(semaphore: &Handle) -> [String; 3] {
    let mut ids = [const { String::new() }; 3];
    for id in &mut ids {
        *id = semaphore.acquire().await.unwrap().id().to_owned();
    }
    ids
}

fn texts(ids: &[String; 3]) -> [&str; 3] {
    [&ids[0], &ids[1], &ids[2]]
}

#[tokio::test]
async fn only_those_that_a_peer_has_dropped_are_told_so() {
    let server = RedisServer::start().await;
    let client = Client::connect(server.url()).await.unwrap();
    let mut peer = server.connection().await;
    // A peer drops an entry from one zset after the other; another one has entered himself into the first only.
    for (dropped_from, peer_enters) in [
        (&["p", "p:owner"][..], false),
        (&["p"][..], false),
        (&["p"][..], true),
    ] {
        let semaphore = Layout::Fair.make(&client, "p", Shape::new(8));
        let ids = acquire_three(&semaphore).await;
        for key in dropped_from {
            let dropped: u64 = peer.zrem(key, &ids[1]).await.unwrap();
            assert_eq!(dropped, 1);
        }
        if peer_enters {
            let now: f64 = peer.zscore("p", &ids[0]).await.unwrap();
            let _: () = peer.zadd("p", "peer", now).await.unwrap();
        }
        let told = release_together(&semaphore, texts(&ids)).await;
        assert_eq!(told, [true, false, true], "{dropped_from:?} {peer_enters}");
        let left: Vec<String> = peer.zrange("p", 0, -1).await.unwrap();
        assert_eq!(left.len(), usize::from(peer_enters), "{left:?}");
        let left: Vec<String> = peer.zrange("p:owner", 0, -1).await.unwrap();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[tokio::test]
async fn who_is_released_twice_at_once_held_once() {
    for layout in crate::layouts::ALL {
        let server = RedisServer::start().await;
        let client = Client::connect(server.url()).await.unwrap();
        let semaphore = layout.make(&client, "twice", Shape::new(3));
        let [one, two, _] = acquire_three(&semaphore).await;
        let told = release_together(&semaphore, [&one, &two, &one]).await;
        assert_eq!(told, [true, true, false], "{layout:?}");
        assert_eq!(semaphore.holders().await.unwrap().len(), 1, "{layout:?}");
    }
}

/// The runtime ends: what will not be released any more is named.
#[test]
fn what_is_owed_when_the_runtime_ends_is_named() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).enable_all().build().unwrap()
    };
    log::record();
    let (outside, inside) = (runtime(), runtime());
    let (_server, proxy) = outside.block_on(start_behind_a_proxy());
    let url = proxy.url();
    let (semaphore, permits) = inside.block_on(async move {
        let builder = Client::builder(url).response_timeout(Duration::from_secs(60));
        let client = builder.connect().await.unwrap();
        let semaphore = Layout::Set.make(&client, "ended", Shape::new(9));
        let permits = [
            semaphore.permit().await.unwrap(),
            semaphore.permit().await.unwrap(),
        ];
        (semaphore, permits)
    });
    let ids = permits.each_ref().map(|permit| permit.id().to_owned());
    let [on_its_way, queued] = permits;
    let before = proxy.scripts();
    proxy.at_script(1, Fate::HoldReply);
    inside.spawn(async move { drop(on_its_way) });
    outside.block_on(proxy.until_scripts(before + 1));
    let acquiring = semaphore.clone();
    inside.block_on(async move {
        drop(queued);
        let mut acquire = std::pin::pin!(acquiring.acquire());
        assert!(poll_once(&mut acquire).await.is_pending());
    });
    inside.shutdown_timeout(LIMIT);
    outside.block_on(until("both are named", LIMIT, async || {
        let lines = log::lines(Level::ERROR, "name=\"ended\"");
        let named = |id: &String| lines.iter().any(|line| line.text.contains(id));
        ids.iter().all(named)
    }));
}
