//! Calls on a lock while the server is away, silent, or refuses changes for the time being: who is told what, and when.

mod support;

use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, ClientBuilder, Error};
use support::proxy::Proxy;
use support::server::RedisServer;
use support::waiters::until_subscribers;
use tokio::task::JoinHandle;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(20);
const HOUR: Duration = Duration::from_secs(3600);
const CHANNEL: &str = "redisson_lock__channel:{door}";

fn builder(url: String) -> ClientBuilder {
    Client::builder(url)
        .response_timeout(Duration::from_millis(100))
        .connect_timeout(Duration::from_millis(200))
        .lock_watchdog_timeout(HOUR)
        .safety_interval(HOUR)
}

async fn connect(url: String, window: Duration) -> Client {
    let client = builder(url).retry_window(window).connect().await;
    client.expect("the server runs")
}

async fn ended<T>(what: &str, task: JoinHandle<T>) -> T {
    let answer = timeout(LIMIT, task).await;
    answer.unwrap_or_else(|_| panic!("{what}")).unwrap()
}

async fn config(redis: &mut MultiplexedConnection, name: &str, value: &str) {
    let mut command = redis::cmd("CONFIG");
    let command = command.arg(&["SET", name, value]);
    let _: () = command.query_async(redis).await.unwrap();
}

/// Why a server does not take changes for a while.
#[derive(Debug, Clone, Copy)]
enum Refusing {
    Replica,
    Memory,
    Replicas,
}

impl Refusing {
    const ALL: [Refusing; 3] = [Refusing::Replica, Refusing::Memory, Refusing::Replicas];

    async fn set(self, redis: &mut MultiplexedConnection, on: bool) {
        match self {
            Refusing::Replica => {
                let primary = if on {
                    ["127.0.0.1", "1"]
                } else {
                    ["NO", "ONE"]
                };
                let mut command = redis::cmd("REPLICAOF");
                let _: () = command.arg(&primary).query_async(redis).await.unwrap();
            }
            Refusing::Memory => config(redis, "maxmemory", if on { "1" } else { "0" }).await,
            Refusing::Replicas => {
                config(redis, "min-replicas-to-write", if on { "1" } else { "0" }).await;
            }
        }
    }
}

#[tokio::test]
async fn a_server_that_takes_no_changes_for_a_while_is_waited_for() {
    for refusing in Refusing::ALL {
        let server = RedisServer::start().await;
        let mut redis = server.connection().await;
        let proxy = Proxy::start(&server).await;
        let client = connect(proxy.url(), LIMIT).await;
        let lock = |name: &str| client.lock(name);
        let (held, fenced) = (lock("held"), client.fenced_lock("fenced"));
        held.lock().await.unwrap();
        held.lock().await.unwrap();
        refusing.set(&mut redis, true).await;
        let scripts = proxy.scripts();
        let calls = async {
            tokio::join!(
                async { lock("waited").lock().await },
                async { lock("tried").try_lock().await.map(|taken| assert!(taken)) },
                async {
                    let taken = lock("timed").try_lock_for(LIMIT).await;
                    taken.map(|taken| assert!(taken))
                },
                async {
                    let taken = lock("short").try_lock_for(Duration::from_millis(10)).await;
                    taken.map(|taken| assert!(taken))
                },
                async { lock("leased").lock_with_lease(HOUR).await },
                async {
                    fenced
                        .lock_and_get_token()
                        .await
                        .map(|token| assert_eq!(token, 1))
                },
                async { held.unlock().await },
            )
        };
        let lift = async {
            // Each of the seven has been refused and has come again.
            proxy.until_scripts(scripts + 28).await;
            refusing.set(&mut redis, false).await;
        };
        let (answers, ()) = tokio::join!(timeout(LIMIT, calls), lift);
        let ok = Ok(());
        let expected = (
            ok.clone(),
            ok.clone(),
            ok.clone(),
            ok.clone(),
            ok.clone(),
            ok.clone(),
            ok,
        );
        assert_eq!(
            answers.expect("they are answered"),
            expected,
            "{refusing:?}"
        );
        assert_eq!(held.hold_count().await, Ok(1));
        assert_eq!(fenced.hold_count().await, Ok(1));
    }
}

/// A lock can be given back without memory; who waits for it has to wait on.
#[tokio::test]
async fn an_unlock_does_not_wait_for_the_turn_that_travels_with_it() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = connect(server.url(), LIMIT).await;
    for fenced in [false, true] {
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
        until_subscribers(&mut redis, CHANNEL, 1).await;
        config(&mut redis, "maxmemory", "1").await;
        let unlocked = timeout(LIMIT, holder.unlock()).await;
        assert_eq!(unlocked.expect("without memory, too"), Ok(()));
        assert!(!holder.is_locked().await.unwrap());
        assert!(!waits.is_finished());
        config(&mut redis, "maxmemory", "0").await;
        ended("it goes on waiting", waits).await.unwrap();
        next.unlock().await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_stays_a_replica_is_told_when_the_window_has_passed() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let window = Duration::from_millis(500);
    let client = connect(server.url(), window).await;
    Refusing::Replica.set(&mut redis, true).await;
    let (waits, tries) = (client.lock("one"), client.lock("two"));
    let began = Instant::now();
    let (waited, tried) = tokio::join!(waits.lock(), tries.try_lock());
    for error in [waited.unwrap_err(), tried.unwrap_err()] {
        assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
    }
    assert!(began.elapsed() >= window, "it was not tried again");
}
