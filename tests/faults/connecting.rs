//! A client that starts without a connection, says whether it is connected, and asks for its credentials each time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::acl::set_user;
use crate::support::clients::{KINDS, LIMIT, builder, connect, served, stored};
use crate::support::proxy::Proxy;
use crate::support::refusals::assert_clear;
use crate::support::server::RedisServer;
use crate::support::waiters::{until, waiter};
use async_trait::async_trait;
use redisson_semaphore::{
    Answer, Client, ClientBuilder, ConnectionState, Credentials, CredentialsProvider, Effect, Error,
};
use tokio::sync::watch;
use tokio::time::timeout;

async fn until_connected(state: &mut watch::Receiver<ConnectionState>) {
    let connected = state.wait_for(|state| *state == ConnectionState::Connected);
    let connected = timeout(LIMIT, connected).await.expect("it comes back");
    connected.expect("the client is there");
}

async fn until_disconnected(state: &mut watch::Receiver<ConnectionState>) -> String {
    let lost = state.wait_for(|state| matches!(state, ConnectionState::Disconnected { .. }));
    let lost = timeout(LIMIT, lost).await.expect("it is noticed");
    match &*lost.expect("the client is there") {
        ConnectionState::Disconnected { detail, .. } => detail.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_service_starts_while_redis_is_down() {
    let mut server = RedisServer::start().await;
    server.stop().await;
    let client = builder(server.url()).connect_lazy().unwrap();
    let mut state = client.connection_state();
    let error = client.ping().await.expect_err("nobody is there");
    assert!(
        matches!(&error, Error::Unavailable { name, .. } if *name == format!("127.0.0.1:{}", server.port())),
        "{error}"
    );
    assert_eq!(error.effect(), Effect::NotApplied);
    until("the reason is told", LIMIT, async || {
        until_disconnected(&mut state).await.contains("refused")
    })
    .await;
    let semaphore = client.semaphore("seats");
    let early = semaphore.clone();
    let early = tokio::spawn(async move { early.try_set_permits(3).await });
    let waiting = semaphore.clone();
    let waiting = tokio::spawn(async move { waiting.acquire(4).await });
    server.restart().await;
    until_connected(&mut state).await;
    assert_eq!(timeout(LIMIT, early).await.unwrap().unwrap(), Ok(true));
    client.ping().await.unwrap();
    semaphore.release(1).await.unwrap();
    served(waiting).await;
    assert_eq!(stored(&server, "seats").await, ["0"]);
}

#[tokio::test]
async fn a_server_that_is_away_at_connect() {
    let mut server = RedisServer::start().await;
    let url = server.url();
    let short = Duration::from_millis(200);
    server.stop().await;
    let connecting = Client::builder(url.clone())
        .connect_timeout(short)
        .connect();
    let error = timeout(LIMIT, connecting).await.unwrap().expect_err("away");
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert_clear(&error, &format!("127.0.0.1:{}", server.port()));
    // A server that starts during the attempts is found.
    let connecting = tokio::spawn(Client::connect(url.clone()));
    server.restart().await;
    let client = timeout(LIMIT, connecting).await.unwrap().unwrap().unwrap();
    client.semaphore("there").release(1).await.unwrap();
    // A server that accepts the connection and says nothing.
    server.freeze();
    let connecting = Client::builder(url).connect_timeout(short).connect();
    let error = timeout(LIMIT, connecting)
        .await
        .unwrap()
        .expect_err("silent");
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    server.thaw();
}

#[tokio::test]
async fn a_client_that_never_connected_tells_why_and_ends() {
    let mut server = RedisServer::options()
        .user("app on >right ~* &* +@all")
        .start()
        .await;
    let window = Duration::from_millis(300);
    let lazy = |url| builder(url).retry_window(window).connect_lazy().unwrap();
    let client = lazy(server.url_as("app", "wrong"));
    let error = client.semaphore("seats").acquire(1).await.unwrap_err();
    assert!(matches!(error, Error::Authentication { .. }), "{error}");
    let error = client.ping().await.unwrap_err();
    assert!(matches!(error, Error::Authentication { .. }), "{error}");
    let told = until_disconnected(&mut client.connection_state()).await;
    assert!(told.starts_with("WRONGPASS"), "{told}");
    client.shutdown().await.unwrap();
    let state = client.connection_state();
    assert_eq!(*state.borrow(), ConnectionState::ShutDown);
    let error = client.ping().await.unwrap_err();
    assert!(matches!(error, Error::ShutDown { .. }), "{error}");
    server.stop().await;
    let client = lazy(server.url());
    let error = client.semaphore("seats").acquire(1).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    client.shutdown().await.unwrap();
    let error = Client::builder("http://nowhere")
        .connect_lazy()
        .unwrap_err();
    assert!(matches!(error, Error::Configuration { .. }), "{error}");
}

#[tokio::test]
async fn a_ping_finds_out_what_nobody_has_noticed() {
    let server = RedisServer::options()
        .user("quiet on >pw ~* &* +@all -ping")
        .start()
        .await;
    let proxy = Proxy::start(&server).await;
    let client = connect(proxy.url()).await;
    let mut state = client.connection_state();
    client.ping().await.unwrap();
    proxy.blackhole();
    assert_eq!(*state.borrow(), ConnectionState::Connected);
    let error = client.ping().await.expect_err("nothing passes");
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    until_disconnected(&mut state).await;
    proxy.clear();
    until_connected(&mut state).await;
    client.ping().await.unwrap();
    // The server answers, if only with a refusal.
    let client = connect(server.url_as("quiet", "pw")).await;
    client.ping().await.unwrap();
}

/// The provider's next answer.
#[derive(Clone)]
enum Say {
    Password(&'static str),
    Fail,
    Panic,
}

struct Rotating {
    say: Arc<Mutex<Say>>,
    asked: Arc<AtomicUsize>,
}

#[async_trait]
impl CredentialsProvider for Rotating {
    async fn credentials(&self) -> Result<Credentials, Box<dyn std::error::Error + Send + Sync>> {
        let say = self.say.lock().unwrap().clone();
        self.asked.fetch_add(1, Ordering::SeqCst);
        match say {
            Say::Password(password) => Ok(Credentials::user("app", password)),
            Say::Fail => Err("the vault is closed".into()),
            Say::Panic => panic!("a fault of the provider"),
        }
    }
}

/// The settings, the provider's next answer, and how often the provider was asked.
fn rotating(
    server: &RedisServer,
    first: Say,
) -> (ClientBuilder, Arc<Mutex<Say>>, Arc<AtomicUsize>) {
    let (say, asked) = (Arc::new(Mutex::new(first)), Arc::default());
    let provider = Rotating {
        say: Arc::clone(&say),
        asked: Arc::clone(&asked),
    };
    (builder(server.url()).credentials(provider), say, asked)
}

#[tokio::test]
async fn credentials_are_asked_for_at_each_connect() {
    let server = RedisServer::options()
        .user("default off")
        .user("app on >one ~* &* +@all")
        .start()
        .await;
    let mut control = server.connection().await;
    let (connecting, say, asked) = rotating(&server, Say::Password("one"));
    let client = connecting.connect().await.unwrap();
    let mut state = client.connection_state();
    let semaphore = client.semaphore("seats");
    for (before, password) in [
        (Say::Password("one"), "two"),
        (Say::Fail, "three"),
        (Say::Panic, "four"),
    ] {
        let waiting = waiter(&mut control, &semaphore, 1).await;
        *say.lock().unwrap() = before;
        let rule = format!(">{password}");
        set_user(&mut control, &["app", "resetpass", &rule]).await;
        let before = asked.load(Ordering::SeqCst);
        assert_eq!(server.disconnect("app").await, KINDS[2].len());
        until_disconnected(&mut state).await;
        until("it is asked", LIMIT, async || {
            asked.load(Ordering::SeqCst) >= before + 2
        })
        .await;
        *say.lock().unwrap() = Say::Password(password);
        until_connected(&mut state).await;
        semaphore.release(1).await.unwrap();
        served(waiting).await;
    }
    assert_eq!(stored(&server, "seats").await, ["0"]);
}

#[tokio::test]
async fn a_provider_that_fails_is_told() {
    let server = RedisServer::start().await;
    for (say, words) in [(Say::Fail, "the vault is closed"), (Say::Panic, "panicked")] {
        let (connecting, ..) = rotating(&server, say);
        let connecting = connecting.connect_timeout(Duration::from_millis(200));
        let error = connecting.connect().await.expect_err("no credentials");
        let Error::Unavailable { detail, .. } = &error else {
            panic!("{error}");
        };
        assert!(detail.contains(words), "{detail}");
    }
    let shown = format!("{:?}", Credentials::user("app", "secret"));
    assert!(
        shown.contains("app") && !shown.contains("secret"),
        "{shown}"
    );
}

#[tokio::test]
async fn what_a_tool_asks_is_answered_as_the_server_does() {
    let mut server = RedisServer::options()
        .user("poor on >p ~mine +ping +get +set")
        .start()
        .await;
    let client = connect(server.url()).await;
    let bytes = |text: &str| Answer::Bytes(text.as_bytes().to_vec());
    let () = redis::pipe()
        .set("text", "a")
        .zadd("zset", "b", 3)
        .query_async(&mut server.connection().await)
        .await
        .unwrap();
    for (words, answer) in [
        (&["GET", "text"][..], bytes("a")),
        (&["GET", "none"], Answer::Nil),
        (&["TYPE", "text"], bytes("string")),
        (&["STRLEN", "text"], Answer::Int(1)),
        (
            &["ZRANGE", "zset", "0", "-1", "WITHSCORES"],
            Answer::Array(vec![bytes("b"), bytes("3")]),
        ),
    ] {
        assert_eq!(client.ask(None, words).await, Ok(answer), "{words:?}");
    }
    let poor = connect(server.url_as("poor", "p")).await;
    let failing = async |client: &Client, words: &[&str]| {
        let told = client.ask(None, words).await;
        told.unwrap_err()
    };
    let text = &["GET", "text"];
    let error = failing(&client, &["LLEN", "text"]).await;
    assert!(matches!(error, Error::WrongType { .. }), "{error}");
    let error = failing(&client, &["NONSENSE"]).await;
    assert!(matches!(error, Error::Server { .. }), "{error}");
    let error = failing(&client, &[]).await;
    assert!(matches!(error, Error::Configuration { .. }), "{error}");
    let error = failing(&poor, text).await;
    assert!(matches!(error, Error::PermissionDenied { .. }), "{error}");
    server.stop().await;
    let error = failing(&client, text).await;
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    client.shutdown().await.unwrap();
    let error = failing(&client, text).await;
    assert!(matches!(error, Error::ShutDown { .. }), "{error}");
}
