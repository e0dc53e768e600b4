//! A server that is away for a while: longer than a call is repeated, or unnoticed by a client that has nothing to say.

use std::pin::Pin;
use std::time::Duration;

use crate::support::acl::set_user;
use crate::support::clients::{LIMIT, builder, connections, until_stored};
use crate::support::polls::poll_once;
use crate::support::proxy::{Fate, Proxy};
use crate::support::server::RedisServer;
use crate::support::waiters::until;
use futures::future::join_all;
use redis::AsyncCommands;
use redisson_semaphore::{Client, ConnectionState, Effect, Error, LeasedSemaphore};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

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

/// How long a call is repeated counts from its first sending, not from the beginning of the outage.
#[tokio::test]
async fn what_is_owed_through_a_long_outage_outlives_a_lost_request_behind_it() {
    let mut server = RedisServer::options().appendonly().start().await;
    let proxy = Proxy::start(&server).await;
    let client = connect(proxy.url()).await;
    for (name, permits) in [("alone", 2), ("together", 1)] {
        let semaphore = client.semaphore(name);
        semaphore.try_set_permits(5).await.unwrap();
        let guard = semaphore.permit(permits).await.unwrap();
        let other = semaphore.permit(2).await.unwrap();
        server.stop().await;
        // What is written before that may have been sent.
        let mut state = client.connection_state();
        let gone = state.wait_for(|state| *state != ConnectionState::Connected);
        gone.await.unwrap();
        drop(guard);
        if name == "together" {
            semaphore.add_permits(1).await.unwrap_err();
        }
        drop(other);
        let began = Instant::now();
        until("the outage lasts", LIMIT, async || {
            began.elapsed() > RECORD_LIFE
        })
        .await;
        let struck = proxy.struck();
        proxy.at_script(1, Fate::LoseRequest);
        server.restart().await;
        proxy.until_struck(struck + 1).await;
        until_stored(&server, name, 5).await;
    }
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

#[tokio::test]
async fn what_is_given_back_while_the_server_is_away_is_given_back_when_it_is_there() {
    for frozen in [false, true] {
        let mut server = RedisServer::options().appendonly().start().await;
        let client = connect(server.url()).await;
        let away = async |server: &mut RedisServer| match frozen {
            true => server.freeze(),
            false => server.stop().await,
        };
        let back = async |server: &mut RedisServer| match frozen {
            true => server.thaw(),
            false => server.restart().await,
        };
        given_back_meanwhile(&client, &mut server, away, back).await;
        client.shutdown().await.unwrap();
    }
}

/// All of them or none, as long as somebody is there to be told which one is not held.
#[tokio::test]
async fn several_that_are_given_back_while_the_server_is_away_are_given_back_without_the_one_that_has_ended()
 {
    let mut server = RedisServer::options().appendonly().start().await;
    let client = connect(server.url()).await;
    let semaphore = client.permit_expirable_semaphore("work");
    semaphore.try_set_permits(3).await.unwrap();
    let kept = semaphore.clone().with_lease(Duration::from_secs(3600));
    let short = semaphore.clone().with_lease(Duration::from_millis(1500));
    let ids = [
        kept.acquire().await.unwrap(),
        kept.acquire().await.unwrap(),
        short.acquire().await.unwrap(),
    ];
    server.stop().await;
    let ids: Vec<_> = ids.iter().map(|held| held.id()).collect();
    let error = semaphore.release_many(&ids).await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
    let began = Instant::now();
    until("one of them ends", LIMIT, async || {
        began.elapsed() > Duration::from_millis(1500)
    })
    .await;
    server.restart().await;
    until("all of them are back", LIMIT, async || {
        semaphore.available_permits().await == Ok(3)
    })
    .await;
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

/// The connection of an idle client has ended: what it asks for next was never sent, and it says so.
#[tokio::test]
async fn a_call_on_a_connection_that_died_unnoticed_was_not_sent() {
    let mut server = RedisServer::options().appendonly().start().await;
    for kill in [false, true] {
        let client = connect(server.url()).await;
        let semaphore = client.semaphore("idle");
        let _ = semaphore.try_set_permits(5).await.unwrap();
        let lock = client.lock("idle-lock");
        let recipe = client.set_semaphore("idle-set", 3);
        if kill {
            server.kill().await;
        } else {
            server.stop().await;
        }
        // The end has come by now, and is read when the runtime looks around: what is written before that may have been sent.
        assert!(
            TcpStream::connect(("127.0.0.1", server.port()))
                .await
                .is_err()
        );
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let told = tokio::join!(
            semaphore.try_acquire(1),
            lock.try_lock(),
            redisson_semaphore::LeasedSemaphore::try_acquire(&recipe),
            semaphore.exists(),
        );
        let errors = [
            told.0.unwrap_err(),
            told.1.unwrap_err(),
            told.2.unwrap_err(),
            told.3.unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error, Error::Unavailable { .. }), "{error}");
            assert_eq!(error.effect(), Effect::NotApplied);
        }
        server.restart().await;
    }
}

/// Other calls keep the connection busy, and their requests are lost with it: those are in doubt.
#[tokio::test]
async fn a_call_whose_request_is_lost_on_the_way_may_have_been_sent() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(&server).await;
    let client = connect(proxy.url()).await;
    let semaphore = client.semaphore("lost");
    semaphore.try_set_permits(5).await.unwrap();
    for n in 1..100 {
        proxy.at_script(n, Fate::LoseRequest);
    }
    let error = semaphore.try_acquire(1).await.unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown { .. }), "{error}");
}

#[tokio::test]
async fn an_idle_client_comes_back_by_itself() {
    let mut server = RedisServer::start().await;
    let client = connect(server.url()).await;
    server.restart().await;
    let mut control = server.connection().await;
    until(
        "the client is back without being asked",
        LIMIT,
        async || connections(&mut control, "normal").await == 1,
    )
    .await;
    timeout(LIMIT, client.semaphore("back").release(1))
        .await
        .expect("it is answered")
        .unwrap();
}

/// The calls of one client, all at once.
#[tokio::test]
async fn calls_on_many_semaphores_end_with_their_windows() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(&server).await;
    let client = builder(proxy.url())
        .response_timeout(Duration::from_millis(200))
        .retry_window(Duration::from_millis(600))
        .connect()
        .await
        .unwrap();
    let named = |number| client.semaphore(&format!("away-{number}"));
    let semaphores: Vec<_> = (0..150).map(named).collect();
    semaphores[0].try_set_permits(1).await.unwrap();
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
