//! Failures that no caller learns of are in the log, with all that is needed to repair them by hand: which permits of which
//! semaphore, and in which direction.

mod support;

use std::time::Duration;

use redis::AsyncCommands;
use redisson_semaphore::{Client, Effect, LeasedSemaphore as _};
use support::acl::set_user;
use support::clients::start_behind_a_proxy;
use support::clients::{LIMIT, builder, connect};
use support::log::{self, record};
use support::proxy::Fate;
use support::server::RedisServer;
use support::waiters::until;
use tokio::time::timeout;
use tracing::Level;

/// The errors in the log so far that contain `text`.
fn lines_with(text: &str) -> Vec<String> {
    let lines = log::lines(Level::ERROR, text);
    lines.into_iter().map(|line| line.text).collect()
}

/// Longer than any call is repeated.
const HORIZON: Duration = Duration::from_secs(301);

#[tokio::test]
async fn permits_whose_fate_stays_unknown_are_named() {
    record();
    let (_server, proxy) = start_behind_a_proxy().await;
    let client = builder(proxy.url()).connect().await.unwrap();
    let (taken, given) = (client.semaphore("taken"), client.semaphore("given"));
    taken.try_set_permits(9).await.unwrap();
    given.try_set_permits(9).await.unwrap();
    let permit = given.permit(5).await.unwrap();
    let lock = client.lock("fate-lock").guard().await.unwrap();
    let number = lock.handle().owner().rsplit(':').next().unwrap();
    let owner = number.to_owned();
    let slot = client
        .slot_semaphore("fate-slots", 3)
        .permit()
        .await
        .unwrap();
    let id = slot.id().to_owned();
    log::ask_at_each(client.clone());
    proxy.blackhole();
    let waiting = {
        let taken = taken.clone();
        tokio::spawn(async move { taken.acquire(4).await })
    };
    tokio::task::yield_now().await;
    drop((permit, lock, slot));
    tokio::time::pause();
    tokio::time::sleep(HORIZON).await;
    tokio::time::resume();
    for (name, calls) in [("\"taken\"", "acquire(4)"), ("\"given\"", "release(5)")] {
        let lines = lines_with(name);
        let told = |line: &String| line.contains(calls) && line.contains("unknown");
        assert!(lines.iter().any(told), "{calls} in {lines:#?}");
    }
    let lines = lines_with("\"fate-lock\"");
    let told = |line: &String| line.contains(&format!("unlock({owner})"));
    assert!(lines.iter().any(told), "{owner} in {lines:#?}");
    let lines = lines_with("\"fate-slots\"");
    let told = |line: &String| line.contains(&format!("release({id})"));
    assert!(lines.iter().any(told), "{id} in {lines:#?}");
    assert!(waiting.await.unwrap().is_err());
    assert!(lines_with(log::LOCKED).is_empty());
}

/// A subscriber may do anything with an event: it may call the client that has logged it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_locked_where_something_is_logged() {
    record();
    let server = RedisServer::options()
        .user("app on >secret ~* &* +@all")
        .start()
        .await;
    let mut control = server.connection().await;
    let url = format!("redis://app:secret@127.0.0.1:{}", server.port());
    let client = connect(url).await;
    log::ask_at_each(client.clone());
    let (plain, watched) = (
        client.semaphore("locked-plain").unwatched(),
        client.semaphore("locked-watched"),
    );
    assert!(plain.try_set_permits(2).await.unwrap());
    assert!(watched.try_set_permits(2).await.unwrap());
    let first = plain.permit(1).await.unwrap();
    let second = watched.permit(1).await.unwrap();
    set_user(&mut control, &["app", "resetkeys", "~other"]).await;
    drop(first);
    until("the loss of its permit is told", LIMIT, async || {
        !log::lines(Level::ERROR, "locked-plain").is_empty()
    })
    .await;
    set_user(&mut control, &["app", "~*"]).await;
    // The entry of the permit that is held is deleted by hand.
    let held: Vec<String> = control.keys("*locked-watched*").await.unwrap();
    let _: () = control.del(held).await.unwrap();
    let _ = second.release().await;
    until("the loss is told", LIMIT, async || {
        !log::lines(Level::WARN, "lost").is_empty()
    })
    .await;
    assert!(lines_with(log::LOCKED).is_empty());
}

/// Commands go on meanwhile.
#[tokio::test]
async fn a_subscription_connection_that_is_not_made_is_warned_of_once() {
    record();
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    let semaphore = client.semaphore("unheard");
    semaphore.try_set_permits(0).await.unwrap();
    let mut require = redis::cmd("CONFIG");
    require.arg(&["SET", "requirepass", "changed"]);
    require.exec_async(&mut control).await.unwrap();
    let call = tokio::spawn(async move { semaphore.acquire(1).await });
    let address = format!("127.0.0.1:{}", server.port());
    let told = |level| {
        let lines = log::lines(level, &address);
        lines
            .into_iter()
            .filter(|line| line.text.contains("subscri"))
    };
    until("several attempts", LIMIT, async || {
        told(Level::DEBUG).count() > 3
    })
    .await;
    assert_eq!(told(Level::WARN).count(), 1);
    call.abort();
}

/// The permits of releases that are on their way, and of releases that are queued.
#[test]
fn permits_that_are_owed_when_the_runtime_ends_are_named() {
    record();
    let outer = tokio::runtime::Runtime::new().unwrap();
    let mut server = outer.block_on(RedisServer::start());
    let inner = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (guards, id) = inner.block_on(async {
        let client = Client::connect(server.url()).await.unwrap();
        let semaphore = client.semaphore("ended");
        semaphore.try_set_permits(9).await.unwrap();
        let recipe = client.set_semaphore("ended-recipe", 9);
        let sent = client.semaphore("sent");
        sent.try_set_permits(9).await.unwrap();
        let sent = sent.permit(2).await.unwrap();
        let guards = (
            semaphore.permit(2).await.unwrap(),
            semaphore.permit(3).await.unwrap(),
            client.lock("ended-lock").guard().await.unwrap(),
            recipe.permit().await.unwrap(),
        );
        let id = guards.3.id().to_owned();
        server.freeze();
        drop(sent);
        // These calls go first, so that the releases are queued.
        let asked = client.lock("ended-lock");
        tokio::spawn(async move { semaphore.exists().await });
        tokio::spawn(async move { asked.is_locked().await });
        tokio::spawn(async move { recipe.holders().await });
        tokio::task::yield_now().await;
        (guards, id)
    });
    inner.block_on(async {
        drop(guards);
        tokio::task::yield_now().await;
    });
    drop(inner);
    server.thaw();
    let lines = lines_with("\"ended\"");
    for release in ["release(2)", "release(3)"] {
        let told = |line: &String| line.contains(release) && line.contains("not carried out");
        assert!(lines.iter().any(told), "{release} in {lines:#?}");
    }
    let lines = lines_with("\"sent\"");
    let told = |line: &String| line.contains("release(2)") && line.contains("not known");
    assert!(lines.iter().any(told), "{lines:#?}");
    let lines = lines_with("\"ended-lock\"");
    let told = |line: &String| line.contains("unlock(") && line.contains("not carried out");
    assert!(lines.iter().any(told), "{lines:#?}");
    let lines = lines_with("\"ended-recipe\"");
    assert!(lines.iter().any(|line| line.contains(&id)), "{lines:#?}");
}

/// A lock request was on its way. Its caller, on another runtime, gets an error: the lock may have been taken.
#[test]
fn a_lock_that_was_asked_for_when_the_runtime_ended_is_named() {
    record();
    for waits in [true, false] {
        let outer = tokio::runtime::Runtime::new().unwrap();
        let (_server, proxy) = outer.block_on(start_behind_a_proxy());
        let inner = tokio::runtime::Runtime::new().unwrap();
        let name = format!("asked-lock-{waits}");
        let lock = inner.block_on(async {
            let client = builder(proxy.url()).connect().await.unwrap();
            client.lock(&name)
        });
        proxy.at_script(1, Fate::HoldReply);
        let before = proxy.scripts();
        let call = outer.spawn(async move {
            match waits {
                true => lock.lock().await,
                false => lock.try_lock().await.map(drop),
            }
        });
        outer.block_on(proxy.until_scripts(before + 1));
        drop(inner);
        let told = outer.block_on(async { timeout(LIMIT, call).await });
        let error = told.expect("it ends").unwrap().unwrap_err();
        assert_eq!(error.effect(), Effect::Unknown, "{error}");
        let lines = lines_with(&format!("{name:?}"));
        let told = |line: &String| line.contains("lock(") && line.contains("not known");
        assert!(lines.iter().any(told), "{lines:#?}");
    }
}
