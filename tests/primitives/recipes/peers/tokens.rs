//! The fair semaphore whose peers wait for tokens in a list.

use redis::AsyncCommands;

use super::support::{CHECK, LIMIT, Program, World, about, acquired, ids, released, with};
use crate::layouts::{Layout, Shape, others};
use crate::support::waiters::until;

use Program::Java;

#[tokio::test]
async fn tokens_wake_peers_and_never_pile_up() {
    let world = World::new().await;
    let redis = world.redis.clone();
    let peer = Java.start(&world.server).await;
    let layout = Layout::FairWithTokens;
    let about = with(about(layout, "tokens", 1), "waitMs", 15_000);
    let [owners, _, tokens] = others("tokens");
    let ours = layout.make(&world.client, "tokens", Shape::new(1).check(CHECK));
    let length = async || -> u64 { redis.clone().llen(&tokens).await.unwrap() };

    // Nobody waits: one token for the one free permit, however often it comes back.
    for _ in 0..20 {
        let mine = ours.acquire().await.unwrap();
        assert_eq!(length().await, 0, "the permit is taken");
        assert!(ours.release(mine.id()).await.unwrap());
        assert_eq!(length().await, 1);
    }

    // A peer that waits is woken by our release, and holds: its entries have moved up.
    let mine = ours.acquire().await.unwrap();
    let theirs = peer.begin("acquire", about.clone());
    until("the peer waits", LIMIT, async || {
        redis.clone().zcard::<_, u64>(&owners).await.unwrap() == 2
    })
    .await;
    assert!(ours.release(mine.id()).await.unwrap());
    let theirs = theirs.await.unwrap().value;
    let theirs = theirs.as_str().expect("woken").to_owned();
    assert_eq!(ids(&ours).await, [theirs.as_str()]);
    assert_eq!(length().await, 0);
    assert_eq!(ours.try_acquire().await.unwrap(), None);
    let cards: (u64, u64) = redis::pipe()
        .zcard("tokens")
        .zcard(&owners)
        .query_async(&mut redis.clone())
        .await
        .unwrap();
    assert_eq!(cards, (1, 1), "the one refused has left something");

    // Ours is served by its check when the peer releases. The peer's token, which comes after that or before, goes with
    // the next permit that is taken at the latest.
    let waiter = ours.clone();
    let waiter = tokio::spawn(async move { waiter.acquire().await });
    assert!(released(&peer, &about, &theirs).await);
    let mine = tokio::time::timeout(LIMIT, waiter).await.unwrap();
    let mine = mine.unwrap().unwrap();
    assert!(length().await <= 1);
    assert!(ours.release(mine.id()).await.unwrap());
    let mine = ours.acquire().await.unwrap();
    assert_eq!(length().await, 0);

    // A waiter that goes leaves nothing behind.
    let waiter = ours.clone();
    let waiter = tokio::spawn(async move { waiter.acquire().await });
    until("ours waits", LIMIT, async || {
        let line: u64 = redis
            .clone()
            .exists("redisson_sc_recipe_queue:fair:{tokens}")
            .await
            .unwrap();
        line == 1
    })
    .await;
    waiter.abort();
    assert!(ours.release(mine.id()).await.unwrap());
    assert!(acquired(&peer, &about).await.is_some());
    peer.shutdown().await;
}
