//! Lone calls on many semaphores travel together, and each is on its own all the same: its effect, its error, its
//! lost reply.

mod support;

use std::collections::HashMap;
use std::time::Duration;

use futures::future::join_all;
use redis::AsyncCommands;
use redisson_semaphore::{Client, Error, RSemaphore};
use support::acl::set_user;
use support::clients::{LIMIT, connect, stored};
use support::proxy::{Fate, LOST_REPLIES, Proxy};
use support::sequence;
use support::server::RedisServer;
use support::waiters::until;
use tokio::time::timeout;

const MANY: usize = 150;
const PERMITS: u32 = 5;

/// Semaphores with [`PERMITS`] each.
async fn semaphores(client: &Client, prefix: &str) -> Vec<RSemaphore> {
    let named = |number| client.semaphore(&format!("{prefix}-{number}"));
    let semaphores: Vec<_> = (0..MANY).map(named).collect();
    for made in join_all(semaphores.iter().map(|one| one.try_set_permits(PERMITS))).await {
        assert!(made.unwrap());
    }
    semaphores
}

/// All permits taken, one from each, and given back, by each semaphore's own caller.
async fn rounds(semaphores: &[RSemaphore], rounds: usize) {
    let callers = semaphores.iter().map(|semaphore| async move {
        for _ in 0..rounds {
            semaphore.acquire(2).await.unwrap();
            assert!(semaphore.try_acquire(3).await.unwrap());
            assert!(!semaphore.try_acquire(1).await.unwrap());
            semaphore.release(5).await.unwrap();
        }
    });
    timeout(LIMIT, join_all(callers))
        .await
        .expect("a caller hangs");
}

async fn assert_whole(server: &RedisServer, semaphores: &[RSemaphore]) {
    for semaphore in semaphores {
        let name = semaphore.name();
        assert_eq!(stored(server, name).await, [PERMITS.to_string()], "{name}");
    }
}

#[tokio::test]
async fn calls_on_many_semaphores_travel_together() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(&server).await;
    let semaphores = semaphores(&connect(proxy.url()).await, "together").await;
    // The server knows the script from here on.
    rounds(&semaphores[..1], 1).await;
    let before = proxy.scripts();
    rounds(&semaphores, 1).await;
    // The first one leaves by itself, each time.
    let used = proxy.scripts() - before;
    assert!(used <= 40, "{} calls in {used} scripts", 4 * MANY);
    assert_whole(&server, &semaphores).await;
}

#[tokio::test]
async fn each_reply_to_calls_that_travel_together_is_lost() {
    let (server, proxy) = sequence::start().await;
    for fate in LOST_REPLIES {
        let client = sequence::connect(proxy.url()).await;
        let semaphores = semaphores(&client, &format!("{fate:?}")).await;
        for n in 1..=12 {
            let struck = proxy.struck();
            proxy.at_script(n, fate);
            rounds(&semaphores, 2).await;
            assert_eq!(proxy.struck(), struck + 1, "script {n} was sent");
            assert_whole(&server, &semaphores).await;
        }
    }
}

/// The script arrives when all that it carried has been settled and done again.
#[tokio::test]
async fn a_late_script_does_nothing() {
    let (server, proxy) = sequence::start().await;
    let client = sequence::connect(proxy.url()).await;
    let semaphores = semaphores(&client, "late").await;
    for n in 1..=6 {
        let struck = proxy.struck();
        proxy.at_script(n, Fate::HoldRequest);
        rounds(&semaphores, 2).await;
        assert_eq!(proxy.struck(), struck + 1, "script {n} was sent");
        proxy.deliver(1).await;
        assert_whole(&server, &semaphores).await;
    }
}

#[tokio::test]
async fn what_is_wrong_with_one_semaphore_is_told_to_its_caller_only() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    let semaphores = semaphores(&client, "wrong").await;
    let _: () = control.del("wrong-10").await.unwrap();
    let _: () = control.lpush("wrong-10", "a list").await.unwrap();
    let _: () = control.set("wrong-20", "0x5").await.unwrap();
    let _: () = control.set("wrong-30", i32::MAX).await.unwrap();
    let _: () = control.set("wrong-40", -3).await.unwrap();
    let _: () = control.del("wrong-50").await.unwrap();
    let released = join_all(semaphores.iter().map(|one| one.release(1))).await;
    let tried = join_all(semaphores.iter().map(|one| one.try_acquire(6))).await;
    for (number, (released, tried)) in released.into_iter().zip(tried).enumerate() {
        let name = format!("wrong-{number}");
        let value = match number {
            10 => {
                assert!(
                    matches!(&released, Err(Error::WrongType { name: told, .. }) if *told == name)
                );
                assert!(
                    matches!(&tried, Err(Error::WrongType { name: told, .. }) if *told == name)
                );
                continue;
            }
            20 => {
                assert!(matches!(&released, Err(Error::NotANumber { .. })));
                assert!(matches!(&tried, Err(Error::NotANumber { .. })));
                "0x5".to_owned()
            }
            30 => {
                assert!(matches!(&released, Err(Error::OutOfRange { .. })));
                assert_eq!(tried, Ok(true));
                (i32::MAX - 6).to_string()
            }
            40 => {
                assert_eq!((released, tried), (Ok(()), Ok(false)));
                "-2".to_owned()
            }
            50 => {
                assert_eq!((released, tried), (Ok(()), Ok(false)));
                "1".to_owned()
            }
            _ => {
                assert_eq!((released, tried), (Ok(()), Ok(true)));
                "0".to_owned()
            }
        };
        assert_eq!(stored(&server, &name).await, [value]);
    }
}

/// Where the client may not write what it goes by, and where it may not publish.
#[tokio::test]
async fn who_may_not_do_it_together_does_it_alone() {
    let server = RedisServer::options()
        .user("own on >secret ~own* ~*{own* &* +@all")
        .user("mute on >secret ~* resetchannels +@all")
        .start()
        .await;
    let url = |user: &str| format!("redis://{user}:secret@127.0.0.1:{}", server.port());
    let own = semaphores(&connect(url("own")).await, "own").await;
    rounds(&own, 3).await;
    assert_whole(&server, &own).await;

    let mute = connect(url("mute")).await;
    let calls = own[..20].iter().map(|one| {
        let twin = mute.semaphore(one.name());
        async move { (twin.try_acquire(2).await, twin.release(2).await) }
    });
    for (taken, released) in join_all(calls).await {
        assert_eq!(taken, Ok(true));
        assert!(matches!(released, Err(Error::PermissionDenied { .. })));
    }
    assert_eq!(stored(&server, own[0].name()).await, ["3"]);
}

/// A refusal may be over after a while.
#[tokio::test]
async fn who_could_not_do_it_together_does_it_again_when_that_is_allowed() {
    let server = RedisServer::options()
        .user("own on >secret ~own* ~*{own* &* +@all")
        .start()
        .await;
    let mut control = server.connection().await;
    let proxy = Proxy::start(&server).await;
    let own = semaphores(&connect(proxy.url_as("own", "secret")).await, "own").await;
    rounds(&own, 2).await;
    let log: Vec<HashMap<String, redis::Value>> = redis::cmd("ACL")
        .arg("LOG")
        .query_async(&mut control)
        .await
        .unwrap();
    let refused = log.iter().map(|entry| match entry["count"] {
        redis::Value::Int(count) => count,
        _ => 0,
    });
    assert!(refused.sum::<i64>() <= 20, "it is tried again and again");
    set_user(&mut control, &["own", "allkeys"]).await;
    until("calls travel together again", LIMIT, async || {
        let before = proxy.scripts();
        rounds(&own, 1).await;
        proxy.scripts() - before <= 40
    })
    .await;
    assert_whole(&server, &own).await;
}

/// Calls that wait for others' scripts have their deadlines, too.
#[tokio::test]
async fn nobody_waits_longer_for_the_others_while_the_server_is_away() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(&server).await;
    let client = support::clients::builder(proxy.url())
        .response_timeout(Duration::from_millis(200))
        .retry_window(Duration::from_millis(600))
        .connect()
        .await
        .unwrap();
    let semaphores = semaphores(&client, "away").await;
    rounds(&semaphores, 1).await;
    proxy.blackhole();
    let calls = semaphores.iter().map(|one| one.try_acquire(1));
    let answers = timeout(LIMIT, join_all(calls)).await.expect("told in time");
    for answer in answers {
        let told = answer.expect_err("the server is away");
        assert!(
            matches!(
                told,
                Error::Unavailable { .. } | Error::OutcomeUnknown { .. }
            ),
            "{told}"
        );
    }
}
