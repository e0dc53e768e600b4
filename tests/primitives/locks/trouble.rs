//! Locks on a server without memory or permissions, many callers of one lock on a silent server, and a lost reply to a forced unlock.

use std::time::{Duration, Instant};

use redis::AsyncCommands;
use redisson_semaphore::{Client, Effect, Error, Lock};

use crate::locks::served;
use crate::support::acl::set_user;
use crate::support::clients::{LIMIT, limited, start_controlled};
use crate::support::proxy::{Fate, Proxy};
use crate::support::server::{RedisServer, limit_memory};
use crate::support::waiters::{until_lock_queued, until_subscribers};
use futures::future::join_all;
use tokio::time::timeout;

const HOUR: Duration = Duration::from_secs(3600);

/// Notices a lost reply behind `response_timeout`, and repeats calls for `window`.
async fn connect(url: String, response_timeout: Duration, window: Duration) -> Client {
    let builder = Client::builder(url).lock_watchdog_timeout(HOUR);
    let builder = builder.response_timeout(response_timeout);
    let builder = builder.retry_window(window).safety_interval(HOUR);
    builder.connect().await.expect("the server runs")
}

/// A lock can be given back without memory, and the next one has it; also when the reply is lost, and the unlock is repeated.
#[tokio::test]
async fn unlock_needs_no_memory() {
    let (server, mut redis) = start_controlled().await;
    let often = Duration::from_millis(100);
    let client = connect(server.url(), often, LIMIT).await;
    let own = format!("redisson_lock_waiters:{{door}}:{}", client.id());
    for (fenced, most) in [(false, "0"), (false, "1"), (true, "1")] {
        let holder = client.lock("door");
        holder.lock().await.unwrap();
        let next = client.fenced_lock("door");
        let call = next.clone();
        let waits = tokio::spawn(async move {
            match fenced {
                true => call.lock_and_get_token().await.map(drop),
                false => call.lock().await,
            }
        });
        until_lock_queued(&mut redis, "door", 1).await;
        until_subscribers(&mut redis, &own, 1).await;
        // Answered behind the waiter's own requests, which need memory.
        assert!(!client.lock("door").try_lock().await.unwrap());
        limit_memory(&mut redis, most).await;
        let unlocked = timeout(LIMIT, holder.unlock()).await;
        assert_eq!(unlocked.expect("without memory, too"), Ok(()));
        served("the next one does not have it", waits).await;
        let unlocked = timeout(LIMIT, next.unlock()).await;
        assert_eq!(unlocked.expect("a grant by message, too"), Ok(()));
        limit_memory(&mut redis, "0").await;
    }
    let proxy = Proxy::start(&server).await;
    let lock = connect(proxy.url(), often, LIMIT).await.lock("door");
    lock.lock().await.unwrap();
    limit_memory(&mut redis, "1").await;
    proxy.at_script(1, Fate::LoseReplyAndClose);
    let unlocked = timeout(LIMIT, lock.unlock()).await;
    assert_eq!(unlocked.expect("its record says so"), Ok(()));
    assert_eq!(proxy.struck(), 1);
}

/// Each hold of a read-write lock can be given back without memory, in any order.
#[tokio::test]
async fn read_write_unlocks_need_no_memory() {
    let (server, mut redis) = start_controlled().await;
    let client = connect(server.url(), LIMIT, LIMIT).await;
    let lock = client.read_write_lock("both");
    let (read, write) = (lock.read(), lock.write());
    for unlocks in [
        [&write, &write, &read, &read],
        [&read, &write, &read, &write],
    ] {
        for lock in [&write, &write, &read, &read] {
            lock.lock().await.unwrap();
        }
        limit_memory(&mut redis, "1").await;
        for lock in unlocks {
            let unlocked = timeout(LIMIT, lock.unlock()).await;
            assert_eq!(unlocked.expect("without memory"), Ok(()));
        }
        assert!(!redis.exists::<_, bool>("both").await.unwrap());
        limit_memory(&mut redis, "0").await;
    }
}

/// Where there is no token to be given, nothing of the batch is carried out.
#[tokio::test]
async fn an_unlock_beside_an_unusable_token_changes_nothing() {
    let (server, mut redis) = start_controlled().await;
    let client = connect(server.url(), LIMIT, LIMIT).await;
    let (lock, fenced) = (client.lock("door"), client.fenced_lock("door"));
    let other = client.lock("door");
    lock.lock().await.unwrap();
    let token = "redisson_lock_token:{door}";
    let _: () = redis.lpush(token, "no number").await.unwrap();
    // The first one departs alone, the others together.
    let (tried, unlocked, taken) = tokio::join!(
        other.try_lock(),
        lock.unlock(),
        fenced.try_lock_and_get_token()
    );
    assert_eq!(tried, Ok(false));
    for error in [unlocked.unwrap_err(), taken.unwrap_err()] {
        assert!(matches!(error, Error::WrongType { .. }), "{error}");
    }
    assert!(redis.exists::<_, bool>("door").await.unwrap());
}

/// Neither by the short script, nor by the one that serves a queue; and the deletion is forbidden, too.
#[tokio::test]
async fn no_lock_without_an_end_is_left_where_setting_it_is_forbidden() {
    let (server, _) = limited("~* &* +@all").await;
    let mut redis = server.connection().await;
    let client = connect(server.url_as("app", "pw"), LIMIT, LIMIT).await;
    let both = client.read_write_lock("both");
    let locks: [Box<dyn Lock>; 4] = [
        Box::new(client.lock("door")),
        Box::new(client.lock("queued")),
        Box::new(both.read()),
        Box::new(both.write()),
    ];
    // The short script is for a lock without notes.
    let notes = "redisson_lock_notes:{queued}";
    let _: bool = redis.hset_nx(notes, "left", 1).await.unwrap();
    set_user(&mut redis, &["app", "-pexpire", "-del"]).await;
    for lock in locks {
        let told = lock.try_lock().await;
        assert!(
            matches!(told, Err(Error::PermissionDenied { .. })),
            "{told:?}"
        );
    }
    for name in ["door", "both", "queued"] {
        assert!(!redis.exists::<_, bool>(name).await.unwrap(), "{name}");
    }
}

/// The first caller's request was sent, and may have been carried out; the requests of the other callers were not sent.
#[tokio::test]
async fn every_caller_has_its_own_deadline_while_the_server_is_silent() {
    const CALLERS: usize = 20;
    /// Several windows of one caller after the other last longer than this, one for all of them does not.
    const TOGETHER: Duration = Duration::from_secs(20);
    let server = RedisServer::start().await;
    let proxy = Proxy::start(&server).await;
    let window = Duration::from_secs(2);
    let client = connect(proxy.url(), Duration::from_millis(100), window).await;
    client.lock("door").is_locked().await.unwrap();
    proxy.mute();
    let began = Instant::now();
    let locks: Vec<_> = (0..CALLERS).map(|_| client.lock("door")).collect();
    let told = join_all(locks.iter().map(|lock| lock.lock())).await;
    assert!(began.elapsed() < TOGETHER, "{:?}", began.elapsed());
    for (number, told) in told.into_iter().enumerate() {
        let error = told.unwrap_err();
        let first = number == 0;
        let effect = if first {
            Effect::Unknown
        } else {
            Effect::NotApplied
        };
        assert_eq!(error.effect(), effect, "{number}: {error}");
    }
    proxy.clear();
    let sound = connect(server.url(), LIMIT, LIMIT).await.lock("door");
    assert!(sound.try_lock_for(LIMIT).await.unwrap(), "given back");
}

/// The first sending takes the lock away from one holder; its repetition must not take it from the next.
#[tokio::test]
async fn forced_open_once() {
    let (server, mut control) = start_controlled().await;
    let near = connect(server.url(), LIMIT, LIMIT).await;
    let [first, second] = [near.lock("forced"), near.lock("forced")];
    // The server knows the scripts from now on.
    first.lock().await.unwrap();
    first.force_unlock().await.unwrap();
    let proxy = Proxy::start(&server).await;
    let forcing = connect(proxy.url(), Duration::from_secs(5), LIMIT).await;
    first.lock().await.unwrap();
    let call = second.clone();
    let waits = tokio::spawn(async move { call.lock().await });
    until_subscribers(&mut control, "redisson_lock__channel:{forced}", 1).await;
    proxy.at_script(1, Fate::LoseReply);
    let forced = tokio::spawn(async move { forcing.lock("forced").force_unlock().await });
    served("it is not forced open", waits).await;
    assert_eq!(proxy.scripts(), 1, "the repetition was faster");
    assert_eq!(timeout(LIMIT, forced).await.unwrap().unwrap(), Ok(true));
    assert!(proxy.scripts() > 1, "it was not repeated");
    assert!(second.is_held().await.unwrap(), "it was taken away twice");
    second.unlock().await.unwrap();
}
