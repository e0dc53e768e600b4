//! A client whose password is wrong for a while: what it gives back meanwhile is given back.

use std::pin::Pin;
use std::time::Duration;

use crate::support::acl::set_user;
use crate::support::clients::{LIMIT, builder, until_stored};
use crate::support::polls::poll_once;
use crate::support::server::RedisServer;
use crate::support::waiters::until;
use redis::AsyncCommands;
use redisson_semaphore::{Client, Effect, LeasedSemaphore};

const WINDOW: Duration = Duration::from_millis(200);
/// Calls are repeated for half of this.
const RECORD_LIFE: Duration = Duration::from_secs(2);

async fn connect(url: String) -> Client {
    builder(url)
        .retry_window(WINDOW)
        .connect_timeout(Duration::from_secs(2))
        .least_record_life(RECORD_LIFE)
        .connect()
        .await
        .expect("the server runs")
}

/// Whoever gives something back through a time in which nobody is let in has given it back: each of these is told so, or looks at the
/// answer no more.
async fn given_back_meanwhile(
    client: &Client,
    server: &mut RedisServer,
    away: impl AsyncFnOnce(&mut RedisServer),
    back: impl AsyncFnOnce(&mut RedisServer),
) {
    let (semaphore, lock) = (client.semaphore("seats"), client.lock("door"));
    let (watched, recipe) = (
        client.semaphore("desks").watched(),
        client.set_semaphore("slots", 9),
    );
    let leased = client.permit_expirable_semaphore("work");
    semaphore.try_set_permits(9).await.unwrap();
    watched.try_set_permits(9).await.unwrap();
    leased.try_set_permits(9).await.unwrap();
    let kept = lock.guard().await.unwrap();
    let guards = async || {
        let (one, two) = tokio::join!(semaphore.permit(1), watched.permit(2));
        let (three, four) = tokio::join!(leased.permit(), LeasedSemaphore::permit(&recipe));
        (
            one.unwrap(),
            two.unwrap(),
            three.unwrap(),
            four.unwrap(),
            kept.again().await.unwrap(),
        )
    };
    let (read, unread) = (guards().await, guards().await);
    semaphore.acquire(1).await.unwrap();
    away(server).await;
    let mut unread: Pin<Box<dyn Future<Output = _>>> = Box::pin(async {
        tokio::join!(
            unread.0.release(),
            unread.1.release(),
            unread.2.release(),
            unread.3.release(),
            unread.4.unlock(),
        )
    });
    assert!(poll_once(&mut unread.as_mut()).await.is_pending());
    let told = tokio::join!(
        read.0.release(),
        read.1.release(),
        read.2.release(),
        read.3.release(),
        read.4.unlock(),
        semaphore.release(1),
    );
    let told = [
        told.0,
        told.1,
        told.2.map(drop),
        told.3.map(drop),
        told.4,
        told.5,
    ];
    for told in told {
        let error = told.unwrap_err();
        assert_eq!(error.effect(), Effect::Unknown, "{error}");
    }
    // The others have been told as well, and did not look.
    drop(unread);
    back(server).await;
    for name in ["seats", "desks", "work"] {
        until_stored(server, name, 9).await;
    }
    let mut redis = server.connection().await;
    until(
        "the slots are free, and the lock is held once",
        LIMIT,
        async || {
            let slots: bool = redis.exists("slots").await.unwrap();
            let count: Option<u32> = redis.hget("door", kept.handle().owner()).await.unwrap();
            !slots && count == Some(1)
        },
    )
    .await;
    kept.unlock().await.unwrap();
    assert!(!lock.is_locked().await.unwrap());
}

/// Its client was not let in, for a reason that does not pass by itself.
#[tokio::test]
async fn what_is_given_back_while_a_password_is_wrong_is_given_back_when_it_is_right() {
    let options = RedisServer::options().user("app on >right ~* &* +@all");
    let mut server = options.start().await;
    let client = connect(server.url_as("app", "right")).await;
    let set = async |server: &mut RedisServer, password: &str| {
        let mut redis = server.connection().await;
        set_user(&mut redis, &["app", "resetpass", password]).await;
        server.disconnect("app").await;
    };
    let away = async |server: &mut RedisServer| set(server, ">wrong").await;
    let back = async |server: &mut RedisServer| set(server, ">right").await;
    given_back_meanwhile(&client, &mut server, away, back).await;
    client.shutdown().await.unwrap();
}
