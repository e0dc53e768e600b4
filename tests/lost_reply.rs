//! Replies that are lost, requests that arrive late: every call takes effect once.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use redis::AsyncCommands;
use redisson_semaphore::{Client, ClientBuilder, Effect, Error, RSemaphore};
use support::server::RedisServer;
use support::snapshot::{snapshot, snapshot_all};
use support::waiters::{channel, until, until_subscribers};
use tokio::time::timeout;

use support::proxy::{Fate, LOST_REPLIES, Proxy};

const LIMIT: Duration = Duration::from_secs(15);

fn builder(url: String) -> ClientBuilder {
    Client::builder(url)
        .response_timeout(Duration::from_millis(60))
        .retry_window(Duration::from_secs(8))
        .safety_interval(Duration::from_secs(3600))
}

async fn connect(url: String) -> Client {
    builder(url).connect().await.expect("the server runs")
}

/// The scripts are in the server's cache from now on, so that each call is one script call.
async fn warm_up(server: &RedisServer) {
    let client = connect(server.url()).await;
    let semaphore = client.semaphore("warm-up");
    semaphore.release(1).await.unwrap();
    semaphore.delete().await.unwrap();
}

/// A server that has been told the scripts, and a proxy in front of it.
async fn start() -> (RedisServer, Proxy) {
    let server = RedisServer::start().await;
    warm_up(&server).await;
    let proxy = Proxy::start(&server).await;
    (server, proxy)
}

/// All the sequence's calls, one after the other: what each answers, as text.
const STEPS: usize = 24;

async fn step(number: usize, client: &Client, name: &str) -> String {
    let semaphore = client.semaphore(name);
    let moved = client.semaphore(&format!("{name}-moved"));
    let copied = client.semaphore(&format!("{name}-copied"));
    let hour = Duration::from_secs(3600);
    match number {
        0 => format!("{:?}", semaphore.try_set_permits(5).await),
        1 => format!("{:?}", semaphore.try_set_permits(7).await),
        2 => format!("{:?}", semaphore.acquire(2).await),
        3 => format!("{:?}", semaphore.try_acquire(2).await),
        4 => format!("{:?}", semaphore.try_acquire(2).await),
        5 => format!("{:?}", semaphore.release(3).await),
        6 => format!("{:?}", semaphore.release_if_exists(2).await),
        7 => format!("{:?}", semaphore.add_permits(4).await),
        8 => format!("{:?}", semaphore.add_permits(-12).await),
        9 => format!("{:?}", semaphore.drain_permits().await),
        10 => format!("{:?}", semaphore.release(6).await),
        11 => {
            let permit = semaphore.permit(2).await.unwrap();
            format!("{:?}", permit.release().await)
        }
        12 => {
            drop(semaphore.permit(3).await.unwrap());
            format!("{:?}", semaphore.available_permits().await)
        }
        13 => {
            // One serves the other, wherever they meet.
            let both = tokio::join!(semaphore.acquire(8), semaphore.release(2));
            format!("{both:?} {:?}", semaphore.release(8).await)
        }
        14 => format!("{:?}", semaphore.expire(hour).await),
        15 => format!("{:?}", semaphore.clear_expire().await),
        16 => format!("{:?}", semaphore.clear_expire().await),
        17 => format!("{:?}", semaphore.copy(copied.name()).await),
        18 => format!("{:?}", semaphore.copy(copied.name()).await),
        19 => format!("{:?}", semaphore.rename(moved.name()).await.is_ok()),
        20 => format!("{:?}", semaphore.rename(moved.name()).await.is_err()),
        21 => format!("{:?}", moved.release(1).await),
        22 => format!("{:?}", copied.delete().await),
        23 => {
            let gone = semaphore.release_if_exists(1).await;
            format!("{gone:?} {:?}", copied.unlink().await)
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
    let mut results = Vec::new();
    for number in 0..STEPS {
        let result = timeout(LIMIT, step(number, &client, name)).await;
        results.push(result.unwrap_or_else(|_| panic!("step {number} hangs")));
        after_each().await;
    }
    client.shutdown().await.unwrap();
    let mut control = server.connection().await;
    for end in ["", "-moved", "-copied"] {
        let left = snapshot(&mut control, &format!("{name}{end}")).await;
        results.push(format!("{:?}", (left.kind, left.value, left.ttl)));
    }
    results
}

/// What the undisturbed sequence answers.
async fn undisturbed(server: &RedisServer, proxy: &Proxy) -> Vec<String> {
    outcome(server, proxy, "undisturbed", async || {}).await
}

/// Whether the sequence just carried out was too short to have an n-th script call. Calls made at the same
/// time may travel together or not, so its length varies a little.
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

/// Each request of the sequence is held back until its repetition has been answered, and delivered then.
#[tokio::test]
async fn each_request_of_a_sequence_arrives_again_at_once() {
    let (server, proxy) = start().await;
    let expected = undisturbed(&server, &proxy).await;
    for n in 1.. {
        proxy.at_script(n, Fate::HoldRequest);
        let delivered = std::cell::Cell::new(false);
        let deliver = async || {
            if proxy.struck() == n && !delivered.replace(true) {
                proxy.deliver(1).await;
            }
        };
        let seen = outcome(&server, &proxy, &format!("again-{n}"), deliver).await;
        assert_eq!(seen, expected, "script call {n} arrived twice");
        if is_over(&proxy, n) {
            return;
        }
        assert!(delivered.get(), "script call {n} was not delivered");
    }
}

/// The same, but delivered when the sequence is over.
#[tokio::test]
async fn each_request_of_a_sequence_arrives_again_at_the_end() {
    let (server, proxy) = start().await;
    let mut control = server.connection().await;
    let expected = undisturbed(&server, &proxy).await;
    for n in 1.. {
        proxy.at_script(n, Fate::HoldRequest);
        let name = format!("late-{n}");
        let seen = outcome(&server, &proxy, &name, async || {}).await;
        assert_eq!(seen, expected, "script call {n} was held");
        if is_over(&proxy, n) {
            return;
        }
        let before = snapshot_all(&mut control).await;
        proxy.deliver(1).await;
        let after = snapshot_all(&mut control).await;
        for (key, one) in &before {
            let same = one.matches(&after[key], Duration::from_secs(60));
            assert!(same, "{key} was changed by script call {n}");
        }
        assert_eq!(before.len(), after.len(), "script call {n} made a key");
    }
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

async fn stored(server: &RedisServer, name: &str) -> Vec<String> {
    snapshot(&mut server.connection().await, name).await.value
}

/// An operation whose outcome stays unknown to the caller, on a counter of 5, and what it leaves once the
/// server answers again.
async fn unknown_at_first(
    lose: impl Fn(&Proxy),
    left: i64,
    call: impl AsyncFnOnce(&RSemaphore) -> Error,
) {
    let (server, proxy) = start().await;
    let client = builder(proxy.url())
        .retry_window(Duration::from_millis(300))
        .connect_timeout(Duration::from_millis(300))
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("unknown");
    semaphore.try_set_permits(5).await.unwrap();
    lose(&proxy);
    let error = timeout(LIMIT, call(&semaphore)).await.expect("it ends");
    let Error::OutcomeUnknown { name, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(
        (name.as_str(), error.effect()),
        ("unknown", Effect::Unknown)
    );
    let text = error.to_string();
    assert!(text.contains("may have taken effect"), "{text}");
    // Several repetitions arrive, or none does.
    let opened = proxy.opened();
    until("the client tries again", LIMIT, async || {
        proxy.opened() > opened + 1
    })
    .await;
    proxy.clear();
    let settled = async || matches!(semaphore.available_permits().await, Ok(now) if now == left);
    until(&format!("{left} permits are left"), LIMIT, settled).await;
    client.shutdown().await.unwrap();
    assert_eq!(stored(&server, "unknown").await, [left.to_string()]);
}

#[tokio::test]
async fn a_release_that_happened_unseen_happens_once() {
    let call = async |semaphore: &RSemaphore| semaphore.release(2).await.unwrap_err();
    unknown_at_first(Proxy::mute, 7, call).await;
}

#[tokio::test]
async fn a_release_that_never_arrived_is_carried_out_later() {
    let call = async |semaphore: &RSemaphore| semaphore.release(2).await.unwrap_err();
    unknown_at_first(Proxy::blackhole, 7, call).await;
}

#[tokio::test]
async fn an_acquisition_that_happened_unseen_is_given_back() {
    let call = async |semaphore: &RSemaphore| semaphore.acquire(2).await.unwrap_err();
    unknown_at_first(Proxy::mute, 5, call).await;
    let call = async |semaphore: &RSemaphore| semaphore.try_acquire(2).await.unwrap_err();
    unknown_at_first(Proxy::mute, 5, call).await;
    let long = Duration::from_secs(60);
    let call = async |semaphore: &RSemaphore| semaphore.try_acquire_for(2, long).await.unwrap_err();
    unknown_at_first(Proxy::mute, 5, call).await;
}

#[tokio::test]
async fn an_acquisition_that_never_arrived_leaves_nothing_taken() {
    let call = async |semaphore: &RSemaphore| semaphore.acquire(2).await.unwrap_err();
    unknown_at_first(Proxy::blackhole, 5, call).await;
    let call = async |semaphore: &RSemaphore| semaphore.try_acquire(2).await.unwrap_err();
    unknown_at_first(Proxy::blackhole, 5, call).await;
}

#[tokio::test]
async fn other_changes_with_an_unknown_outcome_happen_once() {
    let call = async |semaphore: &RSemaphore| semaphore.add_permits(-3).await.unwrap_err();
    unknown_at_first(Proxy::mute, 2, call).await;
    let call = async |semaphore: &RSemaphore| semaphore.drain_permits().await.unwrap_err();
    unknown_at_first(Proxy::mute, 0, call).await;
    let call = async |semaphore: &RSemaphore| semaphore.release_if_exists(1).await.unwrap_err();
    unknown_at_first(Proxy::blackhole, 6, call).await;
}

#[tokio::test]
async fn a_dropped_guard_outlives_a_server_that_is_silent() {
    let (server, proxy) = start().await;
    let client = builder(proxy.url())
        .connect_timeout(Duration::from_millis(200))
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("guarded");
    semaphore.try_set_permits(3).await.unwrap();
    let permit = semaphore.permit(2).await.unwrap();
    proxy.mute();
    drop(permit);
    let opened = proxy.opened();
    until("the client tries again", LIMIT, async || {
        proxy.opened() > opened + 1
    })
    .await;
    proxy.clear();
    until("the permits are back", LIMIT, async || {
        stored(&server, "guarded").await == ["3"]
    })
    .await;
    client.shutdown().await.unwrap();
    assert_eq!(stored(&server, "guarded").await, ["3"]);
}

/// A release travels together with the question of a caller that waits for as long as it takes.
#[tokio::test]
async fn what_was_told_not_to_have_happened_does_not_happen_later() {
    let mut server = RedisServer::options().appendonly().start().await;
    let mut control = server.connection().await;
    let client = builder(server.url())
        .retry_window(Duration::from_millis(300))
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("told");
    let waiting = {
        let semaphore = semaphore.clone();
        tokio::spawn(async move { semaphore.acquire(3).await })
    };
    until_subscribers(&mut control, &channel("told"), 1).await;
    semaphore.available_permits().await.unwrap();
    server.stop().await;
    // Found out by something else, so that nothing about this semaphore is under way.
    client.semaphore("other").exists().await.unwrap_err();
    let error = semaphore.release(1).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert_eq!(error.effect(), Effect::None);
    server.restart().await;
    let mut control = server.connection().await;
    until_subscribers(&mut control, &channel("told"), 1).await;
    until("the client is back", LIMIT, async || {
        semaphore.available_permits().await.is_ok()
    })
    .await;
    assert_eq!(
        stored(&server, "told").await,
        [""; 0],
        "though told: {error}"
    );
    waiting.abort();
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
    let _: () = redis::cmd("ACL")
        .arg(&["SETUSER", "app", "-evalsha"])
        .query_async(&mut control)
        .await
        .unwrap();
    let answer = timeout(LIMIT, acquire).await.unwrap().unwrap();
    let _: () = redis::cmd("ACL")
        .arg(&["SETUSER", "app", "+@all"])
        .query_async(&mut control)
        .await
        .unwrap();
    let left = semaphore.available_permits().await.unwrap();
    match answer {
        Ok(true) => assert_eq!(left, 2),
        Err(error) if error.effect() == Effect::None => {
            assert_eq!(
                left, 3,
                "a permit is lost, but the caller was told: {error}"
            );
        }
        Err(_) => {}
        Ok(false) => panic!("there were permits"),
    }
}

/// A request is held back, its repetition is answered with an error that says that nothing took effect,
/// and the reason for the error goes away: the held request must not take effect then.
async fn refused_then_delivered(
    before: Option<&str>,
    after: &str,
    call: impl AsyncFnOnce(&RSemaphore) -> Error,
) {
    let (server, proxy) = start().await;
    let mut control = server.connection().await;
    let client = connect(proxy.url()).await;
    let semaphore = client.semaphore("late");
    if let Some(text) = before {
        let _: () = control.set("late", text).await.unwrap();
    }
    proxy.at_script(1, Fate::HoldRequest);
    let error = call(&semaphore).await;
    assert_eq!(error.effect(), Effect::None, "{error}");
    let _: () = control.set("late", after).await.unwrap();
    proxy.deliver(1).await;
    assert_eq!(
        snapshot(&mut control, "late").await.value,
        [after],
        "though the caller was told: {error}"
    );
}

#[tokio::test]
async fn a_late_copy_of_a_refused_release_does_nothing() {
    refused_then_delivered(Some("text"), "5", async |semaphore| {
        semaphore.release(1).await.unwrap_err()
    })
    .await;
}

#[tokio::test]
async fn a_late_copy_of_a_refused_acquisition_does_nothing() {
    refused_then_delivered(Some("text"), "5", async |semaphore| {
        semaphore.try_acquire(1).await.unwrap_err()
    })
    .await;
}

#[tokio::test]
async fn a_late_copy_of_a_refused_rename_does_nothing() {
    refused_then_delivered(None, "5", async |semaphore| {
        semaphore.rename("elsewhere").await.unwrap_err()
    })
    .await;
}

#[tokio::test]
async fn a_late_copy_of_an_out_of_range_release_does_nothing() {
    refused_then_delivered(Some("2147483647"), "5", async |semaphore| {
        semaphore.release(1).await.unwrap_err()
    })
    .await;
}
