//! A server that is away, and a network that drops everything: each call ends, and its error is true about its effect.

use std::pin::pin;
use std::time::Duration;

use redisson_semaphore::{Client, ClientBuilder, ConnectionState, Effect, Result};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::subject::{
    Books, End, Expected, HOUR, Kind, SHORT, Subject, pass, tell_all, waits_without_limit,
};
use crate::subjects::for_every_subject;
use crate::support::clients::{self, LIMIT};
use crate::support::polls::poll_once;
use crate::support::proxy::Proxy;
use crate::support::server::RedisServer;
use crate::support::waiters::until;

/// The setting that ends a call without an answer.
#[derive(Debug, Clone, Copy)]
enum Bound {
    RetryWindow,
    CallTimeout,
}

impl Bound {
    fn builder(self, url: String) -> ClientBuilder {
        let builder = clients::builder(url)
            .connect_timeout(LIMIT)
            .lock_watchdog_timeout(HOUR);
        match self {
            Bound::RetryWindow => builder.retry_window(Duration::from_secs(5)),
            Bound::CallTimeout => builder
                .retry_window(HOUR)
                .call_timeout(Duration::from_secs(6)),
        }
    }

    /// Whether the bound ends this call. A call that waits without a limit ends with its retry window alone.
    fn ends(self, call: &str) -> bool {
        matches!(self, Bound::RetryWindow) || !waits_without_limit(call)
    }
}

fn name_of<S: Subject>(prefix: &str, call: &str) -> String {
    format!("{}-{prefix}-{call}", S::NAME)
}

/// The effects of undisturbed calls. They are another client's, as they have no bound.
async fn undisturbed<S: Subject>(server: &RedisServer) -> Expected {
    let client = clients::patient(server.url()).lock_watchdog_timeout(HOUR);
    let client = client.connect().await.unwrap();
    let expected = Expected::of::<S>(&client, &mut server.connection().await).await;
    client.shutdown().await.unwrap();
    expected
}

/// Prepares an object for each call that the bound ends. Preparations are calls within that bound, too. They run alone, so that
/// they do not queue for the processor behind those of other primitives.
async fn prepared<S: Subject>(
    client: &Client,
    bound: Bound,
    prefix: &str,
) -> Vec<(S, &'static str, Kind)> {
    static ALONE: Mutex<()> = Mutex::const_new(());
    let _alone = ALONE.lock().await;
    let mut prepared = Vec::new();
    for &(call, kind) in S::CALLS {
        if bound.ends(call) {
            let subject = S::new(client, &name_of::<S>(prefix, call));
            subject.prepare(call).await.unwrap();
            prepared.push((subject, call, kind));
        }
    }
    prepared
}

/// Asserts that the call ended with an error that names its object, unless the call is done in the background.
fn assert_told<S: Subject>(what: &str, call: &str, kind: Kind, told: &Result<bool>) {
    match told {
        Ok(_) => assert!(call.ends_with("drop"), "{what}: it waits for nobody"),
        Err(error) => {
            assert!(error.is_unavailable(), "{what}");
            assert!(error.to_string().contains(S::NAME), "{what}");
            let again = error.effect() == Effect::NotApplied;
            assert_eq!(error.is_retryable(), again, "{what}");
            assert!(again || kind != Kind::Look, "{what}");
            // Each release is carried out in the end.
            assert!(!again || kind != Kind::Give, "{what}");
        }
    }
}

/// The server is away, and the client knows it: nothing is sent.
async fn stopped<S: Subject>(bound: Bound) {
    let mut server = RedisServer::options().appendonly().start().await;
    let client = bound.builder(server.url()).connect().await.unwrap();
    let mut books = Books::new(undisturbed::<S>(&server).await);
    let subjects = prepared::<S>(&client, bound, "away").await;
    server.stop().await;
    let mut state = client.connection_state();
    let down = |state: &ConnectionState| matches!(state, ConnectionState::Disconnected { .. });
    let noticed = timeout(LIMIT, state.wait_for(down)).await;
    noticed.expect("it is noticed").unwrap();
    let all = tell_all(&subjects).await;
    let waits = S::new(&client, &format!("{}-away-waits", S::NAME));
    let told = timeout(LIMIT, waits.take(Some(SHORT))).await;
    let error = told.expect("it has a bound").unwrap_err();
    assert_eq!(error.effect(), Effect::NotApplied, "{error}");
    server.restart().await;
    let mut redis = server.connection().await;
    let up = |state: &ConnectionState| matches!(state, ConnectionState::Connected);
    let noticed = timeout(LIMIT, state.wait_for(up)).await;
    noticed.expect("it comes back").unwrap();
    for ((subject, call, kind), told) in subjects.into_iter().zip(all) {
        let what = format!("{bound:?}, {} {call}: told {told:?}", S::NAME);
        assert_told::<S>(&what, call, kind, &told);
        let end = End::told(kind, &told);
        let given = kind == Kind::Give;
        assert!(given || end == End::NotDone, "{what}: it was never sent");
        // The release of a watched guard is sent with the next call about its semaphore.
        let name = name_of::<S>("away", call);
        until("it is used", LIMIT, async || {
            pass::<S>(&client, &name).await.is_ok()
        })
        .await;
        books.settled(&mut redis, what, subject, call, end).await;
    }
    books.close(&mut redis, client).await;
}

async fn while_it_is_stopped<S: Subject>() {
    tokio::join!(
        stopped::<S>(Bound::RetryWindow),
        stopped::<S>(Bound::CallTimeout)
    );
}

#[tokio::test]
async fn with_the_server_away_every_call_ends_and_what_was_not_sent_will_not_be() {
    for_every_subject!(while_it_is_stopped);
}

/// Requests vanish, or they are carried out and their replies vanish.
async fn silent<S: Subject>(bound: Bound, arrives: bool, server: &RedisServer, expected: Expected) {
    let mut redis = server.connection().await;
    let proxy = Proxy::start(server).await;
    let client = bound.builder(proxy.url()).connect().await.unwrap();
    let mut books = Books::new(expected);
    let prefix = format!("{bound:?}-{arrives}");
    let subjects = prepared::<S>(&client, bound, &prefix).await;
    if arrives {
        proxy.mute();
    } else {
        proxy.blackhole();
    }
    let all = tell_all(&subjects).await;
    proxy.clear();
    until("the client is back", LIMIT, async || {
        client.semaphore("back").exists().await.is_ok()
    })
    .await;
    for ((subject, call, kind), told) in subjects.into_iter().zip(all) {
        let name = name_of::<S>(&prefix, call);
        let what = format!("{name}: told {told:?}");
        assert_told::<S>(&what, call, kind, &told);
        let end = End::told(kind, &told);
        until("it is used", LIMIT, async || {
            pass::<S>(&client, &name).await.is_ok()
        })
        .await;
        books.settled(&mut redis, what, subject, call, end).await;
    }
    books.close(&mut redis, client).await;
}

async fn while_it_is_silent<S: Subject>() {
    let server = RedisServer::start().await;
    let expected = undisturbed::<S>(&server).await;
    let one = |bound, arrives| silent::<S>(bound, arrives, &server, expected.clone());
    tokio::join!(
        one(Bound::RetryWindow, false),
        one(Bound::RetryWindow, true),
        one(Bound::CallTimeout, false),
        one(Bound::CallTimeout, true),
    );
}

#[tokio::test]
async fn in_a_silent_network_every_call_ends_and_what_it_took_is_given_back() {
    for_every_subject!(while_it_is_silent);
}

/// A call with a timeout of its own ends soon after it, even with a retry window of an hour and without a call timeout.
async fn while_it_waits<S: Subject>() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(&server).await;
    let client = clients::builder(proxy.url())
        .connect_timeout(LIMIT)
        .lock_watchdog_timeout(HOUR)
        .retry_window(HOUR);
    let client = client.connect().await.unwrap();
    let subject = S::new(&client, S::NAME);
    subject.begin_anew().await.unwrap();
    // This opens the client's connections.
    pass::<S>(&client, S::NAME).await.unwrap();
    proxy.blackhole();
    let told = timeout(LIMIT, subject.take(Some(SHORT))).await;
    let error = told.expect("it ends").expect_err("nobody answers");
    assert!(error.is_unavailable(), "{error}");
    proxy.clear();
    let other = S::new(&client, S::NAME);
    let taken = timeout(LIMIT, other.take(None)).await;
    assert_eq!(taken.expect("nobody has it"), Ok(true), "{}", S::NAME);
}

#[tokio::test]
async fn a_timed_call_has_a_bound_by_itself() {
    for_every_subject!(while_it_waits);
}

/// A call that was not sent when its caller went away is not made later, except for a release.
async fn goes_before_it_is_sent<S: Subject>() {
    let mut server = RedisServer::options().appendonly().start().await;
    let bound = Bound::RetryWindow;
    let client = bound.builder(server.url()).connect().await.unwrap();
    let mut books = Books::new(undisturbed::<S>(&server).await);
    let subjects = prepared::<S>(&client, bound, "unsent").await;
    server.stop().await;
    let mut state = client.connection_state();
    let down = |state: &ConnectionState| matches!(state, ConnectionState::Disconnected { .. });
    state.wait_for(down).await.unwrap();
    for (subject, call, _) in &subjects {
        // A drop is done after its first poll, as far as its caller can see.
        let _ = poll_once(&mut pin!(subject.call(call))).await;
    }
    server.restart().await;
    let mut redis = server.connection().await;
    for (subject, call, kind) in subjects {
        let end = match kind {
            Kind::Give => End::Done,
            _ => End::NotDone,
        };
        let name = name_of::<S>("unsent", call);
        until("it is used", LIMIT, async || {
            pass::<S>(&client, &name).await.is_ok()
        })
        .await;
        books.settled(&mut redis, name, subject, call, end).await;
    }
    books.close(&mut redis, client).await;
}

#[tokio::test]
async fn a_call_that_was_not_sent_is_not_made_when_its_caller_has_gone() {
    for_every_subject!(goes_before_it_is_sent);
}
