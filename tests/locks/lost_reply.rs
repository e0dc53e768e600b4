//! Locks whose replies are lost and whose requests arrive late: every call takes effect once.

use std::cell::Cell;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::support::proxy::{Fate, LOST_REPLIES, Proxy};
use crate::support::server::RedisServer;
use crate::support::snapshot::{snapshot, snapshot_all};
use crate::support::waiters::{until, until_subscribers};
use redis::AsyncCommands;
use redisson_semaphore::{Client, ClientBuilder, Effect, Error, Result};
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(20);
const HOUR: Duration = Duration::from_secs(3600);

fn builder(url: String) -> ClientBuilder {
    Client::builder(url)
        .response_timeout(Duration::from_millis(60))
        .retry_window(Duration::from_secs(8))
        .safety_interval(HOUR)
}

async fn connect(url: String) -> Client {
    builder(url).connect().await.expect("the server runs")
}

/// A server that knows the scripts, so that each call is one script call, and a proxy in front of it.
async fn start() -> (RedisServer, Proxy) {
    let server = RedisServer::start().await;
    let client = connect(server.url()).await;
    let lock = client.lock("warm-up");
    lock.lock().await.unwrap();
    lock.unlock().await.unwrap();
    lock.force_unlock().await.unwrap();
    let proxy = Proxy::start(&server).await;
    (server, proxy)
}

/// An answer as text that is the same for every client.
fn said<T: Debug>(answer: Result<T>) -> String {
    match answer {
        Err(Error::NotHeld { .. }) => "not held".to_owned(),
        other => format!("{other:?}"),
    }
}

/// All the sequence's calls, one after the other: what each answers.
const STEPS: usize = 18;

async fn step(number: usize, client: &Client, name: &str) -> String {
    let lock = client.fenced_lock(name);
    let (mine, yours) = (lock.with_owner(1), lock.with_owner(2));
    let (plain, foreign) = (mine.as_lock(), yours.as_lock());
    match number {
        0 => said(plain.lock().await),
        1 => said(plain.with_lease(HOUR).lock().await),
        2 => said(foreign.try_lock().await),
        3 => said(foreign.try_lock_for(Duration::from_millis(1)).await),
        4 => said(yours.unlock().await),
        5 => said(mine.unlock().await),
        6 => said(plain.hold_count().await),
        7 => said(mine.unlock().await),
        8 => said(mine.unlock().await),
        9 => said(mine.lock_and_get_token().await),
        10 => said(mine.try_lock_and_get_token().await),
        11 => {
            // The other one may have to wait for both.
            let both = async { (mine.unlock().await, mine.unlock().await) };
            let (unlocked, token) = tokio::join!(both, yours.lock_and_get_token());
            format!("{unlocked:?} {token:?}")
        }
        12 => {
            let token = mine.try_lock_and_get_token().await;
            format!("{token:?} {:?}", yours.token().await)
        }
        13 => said(mine.force_unlock().await),
        14 => said(mine.force_unlock().await),
        15 => said(yours.unlock().await),
        16 => {
            drop(mine.guard().await.unwrap());
            // Behind the guard's unlock.
            said(yours.guard_for(LIMIT).await.map(|guard| guard.is_some()))
        }
        17 => {
            let guard = mine.with_lease(HOUR).guard().await.unwrap();
            said(guard.unlock().await)
        }
        _ => unreachable!("there are {STEPS} steps"),
    }
}

/// The sequence's results, and what it leaves behind.
async fn outcome(
    server: &RedisServer,
    proxy: &Proxy,
    name: &str,
    after_each: impl AsyncFn(),
) -> Vec<String> {
    let client = connect(proxy.url()).await;
    // Keeps what is known of the lock.
    let _handle = client.lock(name);
    let mut results = Vec::new();
    for number in 0..STEPS {
        let result = timeout(LIMIT, step(number, &client, name)).await;
        results.push(result.unwrap_or_else(|_| panic!("step {number} hangs")));
        after_each().await;
    }
    client.shutdown().await.unwrap();
    let mut control = server.connection().await;
    for key in [name, &format!("redisson_lock_token:{{{name}}}")] {
        let left = snapshot(&mut control, key).await;
        results.push(format!("{:?}", (left.kind, left.value, left.ttl)));
    }
    results
}

/// What the undisturbed sequence answers.
async fn undisturbed(server: &RedisServer, proxy: &Proxy) -> Vec<String> {
    let seen = outcome(server, proxy, "undisturbed", async || {}).await;
    let expected = [
        "Ok(())",
        "Ok(())",
        "Ok(false)",
        "Ok(false)",
        "not held",
        "Ok(())",
        "Ok(1)",
        "Ok(())",
        "not held",
        "Ok(3)",
        "Ok(Some(4))",
        "(Ok(()), Ok(())) Ok(5)",
        "Ok(None) Ok(Some(5))",
        "Ok(true)",
        "Ok(false)",
        "not held",
        "Ok(true)",
        "Ok(())",
    ];
    assert_eq!(seen[..STEPS], expected);
    assert_eq!(seen[STEPS], "(\"none\", [], None)", "the lock is free");
    seen
}

/// Whether the sequence just carried out was too short to have an n-th script call.
fn is_over(proxy: &Proxy, n: u64) -> bool {
    let over = proxy.struck() < n;
    assert!(!over || n > STEPS as u64, "script call {n} was not hit");
    over
}

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

/// Each request of the sequence is held back until its repetition has been answered, and so many further steps are
/// through; it is delivered then, among them.
async fn each_request_arrives_again(after: usize) {
    let (server, proxy) = start().await;
    let expected = undisturbed(&server, &proxy).await;
    for n in 1.. {
        proxy.at_script(n, Fate::HoldRequest);
        let (steps, delivered) = (Cell::new(0), Cell::new(false));
        let deliver = async || {
            if proxy.struck() == n && !delivered.get() {
                if steps.get() == after {
                    proxy.deliver(1).await;
                    delivered.set(true);
                }
                steps.set(steps.get() + 1);
            }
        };
        let name = format!("again-{after}-{n}");
        let seen = outcome(&server, &proxy, &name, deliver).await;
        assert_eq!(seen, expected, "script call {n} arrived twice");
        if is_over(&proxy, n) {
            return;
        }
        if !delivered.get() {
            proxy.deliver(1).await;
        }
        let left = snapshot(&mut server.connection().await, &name).await;
        assert_eq!(left.kind, "none", "script call {n} took the lock, late");
    }
}

#[tokio::test]
async fn each_request_of_a_sequence_arrives_again_at_once() {
    each_request_arrives_again(0).await;
}

#[tokio::test]
async fn each_request_of_a_sequence_arrives_again_a_step_later() {
    each_request_arrives_again(1).await;
}

#[tokio::test]
async fn each_request_of_a_sequence_arrives_again_some_steps_later() {
    each_request_arrives_again(4).await;
}

/// The same, but delivered when the sequence is over.
#[tokio::test]
async fn each_request_of_a_sequence_arrives_again_at_the_end() {
    let (server, proxy) = start().await;
    let mut control = server.connection().await;
    let expected = undisturbed(&server, &proxy).await;
    for n in 1.. {
        proxy.at_script(n, Fate::HoldRequest);
        let seen = outcome(&server, &proxy, &format!("late-{n}"), async || {}).await;
        assert_eq!(seen, expected, "script call {n} was held");
        if is_over(&proxy, n) {
            return;
        }
        let before = snapshot_all(&mut control).await;
        proxy.deliver(1).await;
        let after = snapshot_all(&mut control).await;
        for (key, one) in &before {
            let Some(now) = after.get(key) else {
                // The last call of a client gives its record back, where no copy of another one can arrive.
                assert!(key.starts_with("redisson_lock_once:"), "{key}");
                continue;
            };
            let same = one.matches(now, Duration::from_secs(60));
            assert!(same, "{key} was changed by script call {n}");
        }
        let made = after.keys().find(|key| !before.contains_key(*key));
        assert_eq!(made, None, "script call {n} made a key");
    }
}

/// The first sending takes the lock away from one holder; its repetition must not take it from the next.
#[tokio::test]
async fn forced_open_once() {
    let (server, proxy) = start().await;
    let forcing = builder(proxy.url())
        .response_timeout(Duration::from_secs(1))
        .connect()
        .await
        .unwrap();
    let (first, second) = (connect(server.url()).await, connect(server.url()).await);
    let (first, second) = (first.lock("forced"), second.lock("forced"));
    first.lock().await.unwrap();
    let waits = tokio::spawn({
        let second = second.clone();
        async move { second.lock().await }
    });
    let mut control = server.connection().await;
    until_subscribers(&mut control, "redisson_lock__channel:{forced}", 1).await;
    proxy.at_script(1, Fate::LoseReply);
    let forced = tokio::spawn(async move { forcing.lock("forced").force_unlock().await });
    timeout(LIMIT, waits).await.unwrap().unwrap().unwrap();
    assert_eq!(proxy.scripts(), 1, "the repetition was faster");
    assert_eq!(timeout(LIMIT, forced).await.unwrap().unwrap(), Ok(true));
    assert!(proxy.scripts() > 1);
    assert!(second.is_held().await.unwrap(), "it was taken away twice");
    second.unlock().await.unwrap();
}

/// Its caller has been told that nobody knows what became of it. Whoever takes the lock later keeps it.
#[tokio::test]
async fn what_has_never_arrived_does_not_force_the_lock_from_who_has_it_later() {
    let (server, proxy) = start().await;
    let forcing = builder(proxy.url()).retry_window(Duration::from_millis(200));
    let forcing = forcing.connect().await.unwrap();
    let later = connect(server.url()).await.lock("forced-late");
    proxy.blackhole();
    let told = forcing.lock("forced-late").force_unlock().await;
    assert!(
        matches!(told, Err(Error::OutcomeUnknown { .. })),
        "{told:?}"
    );
    later.lock().await.unwrap();
    let before = proxy.scripts();
    proxy.clear();
    // It is asked about all the same, so that a copy which is still on its way comes too late.
    timeout(LIMIT, proxy.until_scripts(before + 1))
        .await
        .unwrap();
    assert_eq!(forcing.lock("forced-late").is_locked().await, Ok(true));
    assert!(later.is_held().await.unwrap(), "it was taken away");
    later.unlock().await.unwrap();
}

/// The first sending gives one of two holds back, and the other is lost before its repetition arrives.
#[tokio::test]
async fn given_back_before_the_rest_was_lost() {
    let (server, proxy) = start().await;
    let client = builder(proxy.url())
        .response_timeout(Duration::from_secs(2))
        .connect()
        .await
        .unwrap();
    let lock = client.lock("rest");
    let outer = lock.guard().await.unwrap();
    let inner = outer.again().await.unwrap();
    let mut control = server.connection().await;
    let scripts = proxy.scripts();
    proxy.at_script(1, Fate::LoseReply);
    let unlocked = tokio::spawn(inner.unlock());
    until(
        "the first sending has been carried out",
        LIMIT,
        async || {
            let count: Vec<i64> = control.hvals("rest").await.unwrap();
            count == [1]
        },
    )
    .await;
    let _: () = control.del("rest").await.unwrap();
    assert_eq!(proxy.scripts(), scripts + 1, "the repetition was faster");
    assert_eq!(timeout(LIMIT, unlocked).await.unwrap().unwrap(), Ok(()));
    timeout(LIMIT, outer.lost()).await.unwrap();
    assert!(proxy.scripts() > scripts + 1);
}

/// The hold before it was lost without anybody noticing: the count starts anew, and only once.
#[tokio::test]
async fn taken_once_after_a_loss_that_nobody_noticed() {
    let (server, proxy) = start().await;
    let mut control = server.connection().await;
    for holds in 1..=2 {
        for fate in [Fate::LoseReply, Fate::LoseReplyAndClose, Fate::HoldRequest] {
            {
                let client = connect(proxy.url()).await;
                let name = format!("unnoticed-{holds}-{fate:?}");
                let lock = client.lock(&name);
                for _ in 0..holds {
                    lock.lock().await.unwrap();
                }
                let old = lock.lease();
                let _: () = control.del(&name).await.unwrap();
                let struck = proxy.struck();
                proxy.at_script(1, fate);
                timeout(LIMIT, lock.lock()).await.unwrap().unwrap();
                assert_eq!(proxy.struck(), struck + 1);
                assert_eq!(lock.hold_count().await.unwrap(), 1, "{name}");
                assert!(old.is_lost() && !lock.lease().is_lost());
                lock.unlock().await.unwrap();
                assert!(!lock.is_locked().await.unwrap());
            }
        }
    }
}

/// Callers of two clients that lose replies all the time: never two inside, and nobody hangs.
#[tokio::test]
async fn a_few_callers_lose_replies_all_the_time() {
    const ROUNDS: i64 = 25;
    let (server, proxy) = start().await;
    let (lossy, sound) = (connect(proxy.url()).await, connect(server.url()).await);
    for n in (2..2000).step_by(5) {
        proxy.at_script(n, LOST_REPLIES[n as usize / 5 % 2]);
    }
    let (inside, done) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
    let tasks: Vec<_> = (0..6)
        .map(|number| {
            let client = if number % 3 == 0 { &sound } else { &lossy };
            let lock = client.lock("few");
            let (inside, done) = (inside.clone(), done.clone());
            tokio::spawn(async move {
                for _ in 0..ROUNDS {
                    lock.lock().await.unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are inside");
                    assert_eq!(lock.hold_count().await.unwrap(), 1);
                    inside.fetch_sub(1, Ordering::SeqCst);
                    lock.unlock().await.unwrap();
                    done.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    for task in tasks {
        timeout(3 * LIMIT, task)
            .await
            .expect("nobody hangs")
            .unwrap();
    }
    assert!(proxy.struck() >= 10, "{} replies were lost", proxy.struck());
    assert_eq!(done.load(Ordering::SeqCst), 6 * ROUNDS);
    assert!(!sound.lock("few").is_locked().await.unwrap());
}

/// A call whose outcome stays unknown to its caller, and what becomes of it when the server answers again.
#[tokio::test]
async fn what_a_caller_was_not_told_is_put_in_order() {
    let (server, proxy) = start().await;
    let sound = connect(server.url()).await;
    let client = builder(proxy.url())
        .retry_window(Duration::from_millis(300))
        .connect()
        .await
        .unwrap();
    let lock = client.lock("unknown");
    proxy.mute();
    let unknown = |result: Result<()>| {
        let error = result.expect_err("no answer came");
        assert_eq!(error.effect(), Effect::Unknown, "{error}");
    };
    unknown(timeout(LIMIT, lock.lock()).await.unwrap());
    let other = sound.lock("unknown");
    assert!(!other.try_lock().await.unwrap(), "it had been carried out");
    proxy.clear();
    assert!(other.try_lock_for(LIMIT).await.unwrap(), "nobody has it");
    other.unlock().await.unwrap();

    lock.lock().await.unwrap();
    let lease = lock.lease();
    proxy.mute();
    unknown(timeout(LIMIT, lock.unlock()).await.unwrap());
    proxy.clear();
    assert!(other.try_lock_for(LIMIT).await.unwrap(), "it is owed");
    assert!(matches!(lock.unlock().await, Err(Error::NotHeld { .. })));
    assert!(!lease.is_lost(), "it was given back");
    assert!(other.is_held().await.unwrap());
    other.unlock().await.unwrap();
}

/// What was never sent must not happen afterwards, neither a call nor a turn.
#[tokio::test]
async fn what_was_never_sent_never_happens() {
    let mut server = RedisServer::options().appendonly().start().await;
    let client = builder(server.url())
        .retry_window(Duration::from_millis(300))
        .connect()
        .await
        .unwrap();
    let lock = client.fenced_lock("unsent");
    assert_eq!(lock.lock_and_get_token().await, Ok(1));
    lock.unlock().await.unwrap();
    server.stop().await;
    // Now the client knows.
    lock.token().await.unwrap_err();
    let (waits, tries) = (lock.with_owner(1), lock.with_owner(2));
    let both = async { tokio::join!(waits.as_lock().lock(), tries.as_lock().try_lock()) };
    let (waited, tried) = timeout(LIMIT, both).await.expect("they are told");
    for error in [waited.unwrap_err(), tried.unwrap_err()] {
        assert_eq!(error.effect(), Effect::NotApplied, "{error}");
    }
    server.restart().await;
    until("the server is back", LIMIT, async || {
        lock.token().await.is_ok()
    })
    .await;
    assert_eq!(lock.with_owner(3).lock_and_get_token().await, Ok(2));
}
