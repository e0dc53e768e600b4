//! A server that is away for a while: longer than a call is repeated, or unnoticed by a client that has nothing to say.

mod support;

use std::time::Duration;

use redisson_semaphore::{Client, ConnectionState, Effect, Error};
use support::clients::{LIMIT, builder, connections, until_stored};
use support::proxy::{Fate, Proxy};
use support::server::RedisServer;
use support::waiters::until;
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
        // Together they are no lone call.
        drop(guard);
        if name == "together" {
            semaphore.release_if_exists(1).await.unwrap_err();
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
            assert_eq!(error.effect(), Effect::None);
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
