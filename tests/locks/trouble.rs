//! Calls on a lock while the server is away, silent, or refuses changes for the time being: who is told what, and when.

use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, ClientBuilder, Effect, Error, Hold, Lock, RLock, Result};

use crate::support::proxy::{Fate, Proxy};
use crate::support::server::{NOWHERE, RedisServer, replica_of};
use crate::support::waiters::{until, until_subscribers};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(20);
const HOUR: Duration = Duration::from_secs(3600);
const CHANNEL: &str = "redisson_lock__channel:{door}";
/// Several windows of one caller after the other last longer than this, one for all of them does not.
const TOGETHER: Duration = Duration::from_secs(4);
const CALLERS: usize = 20;

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

/// `lock` in a task that has been polled once.
async fn locking(lock: &RLock) -> JoinHandle<Result<()>> {
    let lock = lock.clone();
    let task = tokio::spawn(async move { lock.lock().await });
    yield_now().await;
    task
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
            Refusing::Replica => replica_of(redis, on.then_some(NOWHERE)).await,
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
                async { lock("leased").with_lease(HOUR).lock().await },
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

/// A lock can be given back without memory, and the next one has it.
#[tokio::test]
async fn unlock_needs_no_memory() {
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
        ended("the next one has it", waits).await.unwrap();
        config(&mut redis, "maxmemory", "0").await;
        next.unlock().await.unwrap();
    }
}

#[tokio::test]
async fn a_lock_is_forced_without_memory() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = connect(server.url(), LIMIT).await;
    let lock = client.lock("door");
    lock.lock().await.unwrap();
    config(&mut redis, "maxmemory", "1").await;
    assert_eq!(lock.force_unlock().await, Ok(true));
    assert!(!lock.is_locked().await.unwrap());
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
        assert!(matches!(error, Error::RefusedForNow { .. }), "{error}");
    }
    assert!(began.elapsed() >= window, "it was not tried again");
}

/// Callers that were there before the server went away, and those that come after; what they get, and how long after
/// they came.
async fn told(callers: Vec<JoinHandle<Result<()>>>, began: Instant) -> Vec<Error> {
    let mut errors = Vec::new();
    for caller in callers {
        let error = ended("it is told", caller).await.unwrap_err();
        errors.push(error);
        assert!(
            began.elapsed() < TOGETHER,
            "{} of {CALLERS} were told within {TOGETHER:?}",
            errors.len()
        );
    }
    errors
}

#[tokio::test]
async fn every_caller_has_its_own_deadline_while_the_server_is_away() {
    let mut server = RedisServer::start().await;
    let window = Duration::from_millis(400);
    let client = connect(server.url(), window).await;
    let lock = client.lock("door");
    lock.lock().await.unwrap();
    lock.unlock().await.unwrap();
    server.stop().await;
    // Now the client knows.
    lock.is_locked().await.unwrap_err();
    let began = Instant::now();
    let mut callers = Vec::new();
    for _ in 0..CALLERS {
        callers.push(locking(&client.lock("door")).await);
    }
    for error in told(callers, began).await {
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    }
    assert!(began.elapsed() >= window);
}

/// The question of the first one was sent, and may have been carried out; nobody else was named.
#[tokio::test]
async fn every_caller_has_its_own_deadline_while_the_server_is_silent() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(&server).await;
    let client = connect(proxy.url(), Duration::from_millis(400)).await;
    client.lock("door").is_locked().await.unwrap();
    proxy.mute();
    let began = Instant::now();
    let mut callers = Vec::new();
    for _ in 0..CALLERS {
        callers.push(locking(&client.lock("door")).await);
    }
    let errors = told(callers, began).await;
    assert_eq!(errors[0].effect(), Effect::Unknown, "{}", errors[0]);
    for error in &errors[1..] {
        assert_eq!(error.effect(), Effect::NotApplied, "{error}");
    }
    proxy.clear();
    let sound = connect(server.url(), LIMIT).await.lock("door");
    assert!(sound.try_lock_for(LIMIT).await.unwrap(), "given back");
}

/// Another question of the same client is under way, and the callers behind it have never asked.
#[tokio::test]
async fn callers_behind_a_question_that_is_not_answered_have_their_own_deadlines() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(&server).await;
    let client = connect(proxy.url(), Duration::from_millis(400)).await;
    let lock = client.lock("door");
    lock.lock().await.unwrap();
    proxy.mute();
    let unlocks = tokio::spawn(async move { lock.unlock().await });
    yield_now().await;
    let began = Instant::now();
    let mut callers = vec![unlocks];
    for _ in 0..CALLERS {
        callers.push(locking(&client.lock("door")).await);
    }
    let errors = told(callers, began).await;
    assert_eq!(errors[0].effect(), Effect::Unknown, "{}", errors[0]);
    for error in &errors[1..] {
        assert_eq!(error.effect(), Effect::NotApplied, "{error}");
    }
}

/// A guard that is given back has gone, though its caller's time was over before the call was sent: nobody else would ever give that
/// hold back.
#[tokio::test]
async fn a_guard_whose_caller_was_told_before_its_unlock_was_sent_is_not_renewed() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let proxy = Proxy::start(&server).await;
    let client = builder(proxy.url())
        .retry_window(Duration::from_millis(400))
        .lock_watchdog_timeout(Duration::from_secs(2));
    let client = client.connect().await.unwrap();
    let guard = client.lock("door").guard().await.unwrap();
    proxy.mute();
    let other = client.lock("door");
    let other = tokio::spawn(async move { other.try_lock().await });
    yield_now().await;
    let error = guard.unlock().await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
    ended("it is told", other).await.unwrap_err();
    proxy.clear();
    until("the lock comes to its end", LIMIT, async || {
        let held: bool = redis.exists("door").await.unwrap();
        !held
    })
    .await;
}

/// A hold that could not be given back for now is given back behind that, whatever its owner does meanwhile.
#[tokio::test]
async fn what_could_not_be_given_back_at_once_is_given_back() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    // Whoever comes behind what is refused waits for its next sending, which is half a second away at the most.
    let client = connect(server.url(), Duration::from_millis(1500)).await;
    let lock = client.lock("door");
    let hold = async || {
        let hold = lock.with_lease(HOUR).hold(None).await.unwrap();
        hold.expect("waited for")
    };
    let give_back = async |hold: Hold| lock.unlock_hold(&hold).await.unwrap();
    let mut control = redis.clone();
    let mut refused = async |unlock: BoxFuture<'_, Result<()>>, refusing: Refusing| {
        refusing.set(&mut control, true).await;
        let error = unlock.await.unwrap_err();
        assert_eq!(error.effect(), Effect::Unknown, "{error}");
        refusing.set(&mut control, false).await;
    };
    let mut count = async || -> Option<u32> { redis.hget("door", lock.owner()).await.unwrap() };
    for refusing in [Refusing::Replica, Refusing::Replicas] {
        let guard = lock.with_lease(HOUR).guard().await.unwrap();
        refused(guard.unlock().boxed(), refusing).await;
        let free = async || !lock.is_locked().await.unwrap();
        until("it is given back", LIMIT, free).await;

        refused(lock.unlock_hold(&hold().await), refusing).await;
        until("it is given back", LIMIT, async || count().await.is_none()).await;

        refused(lock.unlock_hold(&hold().await), refusing).await;
        give_back(hold().await).await;
        assert_eq!(count().await, None);

        let outer = hold().await;
        refused(lock.unlock_hold(&hold().await), refusing).await;
        until("the inner one is", LIMIT, async || count().await == Some(1)).await;
        give_back(outer).await;
        assert_eq!(count().await, None);
    }
}

/// Who has been answered that it must wait is not told anything of a server that goes away for longer than the window,
/// and all of them keep their places.
#[tokio::test]
async fn who_waits_in_line_goes_on_waiting_in_its_place() {
    let window = Duration::from_millis(300);
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let holder = connect(server.url(), LIMIT).await.lock("door");
    let proxy = Proxy::start(&server).await;
    // The first one asks again and again.
    let client = builder(proxy.url())
        .retry_window(window)
        .safety_interval(window / 2)
        .connect()
        .await
        .unwrap();
    holder.lock().await.unwrap();
    let (order, mut served) = tokio::sync::mpsc::unbounded_channel();
    let mut waiting = Vec::new();
    for number in 0..6 {
        let (lock, order) = (client.lock("door"), order.clone());
        waiting.push(tokio::spawn(async move {
            if number % 2 == 0 {
                lock.lock().await?;
            } else {
                assert!(lock.try_lock_for(2 * LIMIT).await?);
            }
            order.send(number).unwrap();
            lock.unlock().await
        }));
        yield_now().await;
        if number == 0 {
            until_subscribers(&mut redis, CHANNEL, 1).await;
        }
    }
    // Answered, together with all who had come until then.
    client.lock("door").try_lock().await.unwrap();
    proxy.blackhole();
    let began = Instant::now();
    let opened = proxy.opened();
    until("the client tries again and again", LIMIT, async || {
        proxy.opened() > opened + 4 && began.elapsed() > 5 * window
    })
    .await;
    for task in &waiting {
        assert!(!task.is_finished(), "somebody was told");
    }
    proxy.clear();
    holder.unlock().await.unwrap();
    for number in 0..6 {
        let next = timeout(LIMIT, served.recv()).await.expect("nobody hangs");
        assert_eq!(next, Some(number));
    }
    for task in waiting {
        ended("it unlocks", task).await.unwrap();
    }
}

/// The server gets the question and answers only after the deadline, and after all windows: what it said yes to is
/// not said to have had no effect, and is given back.
#[tokio::test]
async fn a_wait_that_runs_out_while_the_question_is_on_its_way() {
    let mut server = RedisServer::start().await;
    let client = connect(server.url(), Duration::from_millis(600)).await;
    let lock = client.fenced_lock("door");
    assert!(lock.try_lock_for(LIMIT).await.unwrap());
    lock.unlock().await.unwrap();
    server.freeze();
    let error = timeout(LIMIT, lock.try_lock_for(Duration::from_millis(200))).await;
    let error = error.expect("it is told").unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown { .. }), "{error}");
    server.thaw();
    let sound = connect(server.url(), LIMIT).await.lock("door");
    assert!(sound.try_lock_for(LIMIT).await.unwrap(), "given back");
    assert!(!lock.is_held().await.unwrap());
}

/// Answered after the deadline, but within the window: one question, one grant.
#[tokio::test]
async fn a_wait_that_runs_out_before_its_answer_is_answered_by_it() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(&server).await;
    for (round, fate) in [Fate::HoldRequest, Fate::LoseReply, Fate::LoseReplyAndClose]
        .into_iter()
        .enumerate()
    {
        let client = connect(proxy.url(), LIMIT).await;
        let lock = client.fenced_lock("door");
        // The server knows the scripts.
        assert_eq!(
            lock.try_lock_and_get_token().await,
            Ok(Some(2 * round as u64 + 1))
        );
        lock.unlock().await.unwrap();
        proxy.at_script(1, fate);
        let wait = Duration::from_millis(20);
        let hold = timeout(LIMIT, lock.hold(Some(wait))).await;
        let hold = hold.expect("it ends").unwrap().expect("it is free");
        assert_eq!(hold.token(), Some(2 * round as u64 + 2), "taken twice");
        if fate == Fate::HoldRequest {
            proxy.deliver(1).await;
        }
        assert_eq!(lock.hold_count().await, Ok(1));
        lock.unlock().await.unwrap();
        assert!(!lock.is_locked().await.unwrap());
    }
}

/// What would be refused by now has happened before.
#[tokio::test]
async fn repetition_behind_a_lost_reply_is_answered_from_the_record() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let proxy = Proxy::start(&server).await;
    let client = connect(proxy.url(), LIMIT).await;
    let door = client.fenced_lock("door");
    // The server knows the script from now on.
    let other = client.fenced_lock("other");
    other.lock_and_get_token().await.unwrap();
    proxy.at_script(1, Fate::LoseReplyAndClose);
    proxy.at_script(2, Fate::HoldRequest);
    let asks = door.clone();
    let asks = tokio::spawn(async move { asks.lock_and_get_token().await });
    proxy.until_struck(1).await;
    // Who waits behind it has not asked anything.
    let behind = locking(client.fenced_lock("door").as_lock()).await;
    let _: () = redis::cmd("SET")
        .arg(&["redisson_lock_token:{door}", "nonsense"])
        .query_async(&mut redis)
        .await
        .unwrap();
    proxy.let_go();
    assert_eq!(ended("it is told", asks).await, Ok(1));
    let error = ended("it is told", behind).await.unwrap_err();
    assert!(matches!(error, Error::Server { .. }), "{error}");
    let held: bool = redis::cmd("EXISTS")
        .arg("door")
        .query_async(&mut redis)
        .await
        .unwrap();
    assert!(held, "it had happened");
}
