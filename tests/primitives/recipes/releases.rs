//! Releases: each call of a batch gets a true result, whatever other programs have done to the holders before.

use crate::layouts::{Handle, Layout, Shape};
use crate::support::acl::set_user;
use crate::support::clients::limited;
use crate::support::server::RedisServer;
use redis::AsyncCommands;
use redisson_semaphore::Client;

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
    // A peer drops an entry from one zset after the other; another peer has entered itself into the first zset only.
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

/// A caller that takes a permit beside a refused release could not be removed again: it has taken none, either.
#[tokio::test]
async fn a_refused_release_makes_no_holder_that_nobody_knows() {
    for layout in crate::layouts::ALL {
        let (server, client) = limited("~* &* +@all").await;
        let mut control = server.connection().await;
        let semaphore = layout.make(&client, "subject", Shape::new(3));
        let held = semaphore.acquire().await.unwrap();
        set_user(&mut control, &["app", "-zrem", "-srem", "-del"]).await;
        // The first call is under way, and the others travel together behind it.
        let (_, released, taken) = tokio::join!(
            semaphore.holders(),
            semaphore.release(held.id()),
            semaphore.try_acquire()
        );
        set_user(&mut control, &["app", "+@all"]).await;
        assert!(released.is_err(), "{layout:?}: {released:?}");
        let mut known: Vec<_> = taken.into_iter().flatten().collect();
        known.push(held);
        let left = semaphore.holders().await.unwrap();
        assert_eq!(left.len(), known.len(), "{layout:?}: {left:?}, {known:?}");
    }
}
