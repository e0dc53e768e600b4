//! Replies that are lost: every call takes effect once.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::support::acl::set_user;
use crate::support::clients::{LIMIT, stored};
use crate::support::proxy::{Fate, LOST_REPLIES, Proxy};
use crate::support::sequence::{builder, connect, is_over, outcome, start, undisturbed, warm_up};
use crate::support::server::RedisServer;
use redisson_semaphore::Effect;
use tokio::time::timeout;

async fn each_reply_is_lost(fate: Fate) {
    let (server, proxy) = start().await;
    let expected = undisturbed(&server, &proxy).await;
    for n in 1.. {
        proxy.at_script(n, fate);
        let seen = outcome(&server, &proxy, &format!("reply-{n}"), async || {}).await;
        assert_eq!(seen, expected, "the reply of script call {n} was lost");
        if is_over(&proxy, n) {
            return;
        }
    }
}

#[tokio::test]
async fn each_reply_of_a_sequence_is_lost_with_its_connection() {
    each_reply_is_lost(LOST_REPLIES[0]).await;
}

#[tokio::test]
async fn each_reply_of_a_sequence_is_lost_in_silence() {
    each_reply_is_lost(LOST_REPLIES[1]).await;
}

/// Fewer than would always serve each other within one script call.
#[tokio::test]
async fn a_few_callers_lose_replies_all_the_time() {
    const PERMITS: i64 = 3;
    let (server, proxy) = start().await;
    let client = builder(proxy.url())
        .local_hand_over(Duration::ZERO)
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("few");
    semaphore.try_set_permits(PERMITS as u32).await.unwrap();
    for n in (2..2000).step_by(5) {
        proxy.at_script(n, Fate::LoseReplyAndClose);
    }
    let held = Arc::new(AtomicI64::new(0));
    let tasks: Vec<_> = (0..4_u64)
        .map(|number| {
            let (semaphore, held) = (semaphore.clone(), held.clone());
            tokio::spawn(async move {
                for round in 0..25_u64 {
                    semaphore.acquire(1).await.unwrap();
                    let now = held.fetch_add(1, Ordering::SeqCst) + 1;
                    assert!(now <= PERMITS, "{now} permits are held");
                    for _ in 0..(number * 7 + round) % 5 {
                        semaphore.exists().await.unwrap();
                    }
                    held.fetch_sub(1, Ordering::SeqCst);
                    semaphore.release(1).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        timeout(LIMIT, task).await.expect("a caller hangs").unwrap();
    }
    assert!(proxy.struck() >= 10, "{} replies were lost", proxy.struck());
    proxy.clear_fates();
    assert_eq!(semaphore.available_permits().await.unwrap(), PERMITS);
    assert_eq!(stored(&server, "few").await, [PERMITS.to_string()]);
}

/// The answer comes, but later than the client waits for one.
#[tokio::test]
async fn a_reply_that_is_late() {
    let (server, proxy) = start().await;
    let client = connect(proxy.url()).await;
    let semaphore = client.semaphore("slow");
    semaphore.try_set_permits(5).await.unwrap();
    for round in 1..=3 {
        proxy.at_script(1, Fate::HoldReply);
        let (acquired, released) = tokio::join!(semaphore.try_acquire(2), semaphore.release(1));
        assert_eq!((acquired, released), (Ok(true), Ok(())));
        assert_eq!(proxy.struck(), round);
        proxy.deliver(1).await;
        assert_eq!(semaphore.available_permits().await, Ok(5 - round as i64));
    }
    assert_eq!(stored(&server, "slow").await, ["2"]);
}

/// Redisson derives the same names beside the object from these two.
#[tokio::test]
async fn objects_that_share_a_record_do_not_disturb_each_other() {
    let (server, proxy) = start().await;
    let client = connect(proxy.url()).await;
    let (plain, braced) = (client.semaphore("seat"), client.semaphore("{seat}"));
    plain.try_set_permits(3).await.unwrap();
    proxy.at_script(1, Fate::LoseReply);
    let lost = tokio::spawn(async move { plain.try_acquire(1).await });
    proxy.until_struck(1).await;
    // The other connection: the one above is silent.
    let other = tokio::spawn(async move { braced.release(1).await });
    timeout(LIMIT, other).await.unwrap().unwrap().unwrap();
    let answer = timeout(LIMIT, lost).await.unwrap().unwrap();
    assert_eq!(answer, Ok(true));
    assert_eq!(stored(&server, "seat").await, ["2"]);
    assert_eq!(stored(&server, "{seat}").await, ["1"]);
}

#[tokio::test]
async fn a_refusal_after_a_lost_reply_does_not_say_that_nothing_happened() {
    let server = RedisServer::options()
        .user("app on >pw ~* &* +@all")
        .start()
        .await;
    warm_up(&server).await;
    let mut control = server.connection().await;
    let proxy = Proxy::start(&server).await;
    let client = builder(proxy.url_as("app", "pw"))
        .retry_window(Duration::from_secs(2))
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("refused");
    semaphore.try_set_permits(3).await.unwrap();
    proxy.at_script(1, Fate::LoseReply);
    let acquire = {
        let semaphore = semaphore.clone();
        tokio::spawn(async move { semaphore.try_acquire(1).await })
    };
    proxy.until_struck(1).await;
    set_user(&mut control, &["app", "-evalsha"]).await;
    let answer = timeout(LIMIT, acquire).await.unwrap().unwrap();
    set_user(&mut control, &["app", "+@all"]).await;
    let left = semaphore.available_permits().await.unwrap();
    match answer {
        Ok(true) => assert_eq!(left, 2),
        Err(error) if error.effect() == Effect::NotApplied => {
            assert_eq!(
                left, 3,
                "a permit is lost, but the caller was told: {error}"
            );
        }
        Err(_) => {}
        Ok(false) => panic!("there were permits"),
    }
}
