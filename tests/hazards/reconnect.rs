//! Connections that end: waiters keep waiting, and are granted the object as soon as it is free. No waiter depends on slow
//! checks here.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use redis::aio::MultiplexedConnection;
use redisson_semaphore::Result;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::lost::builder;
use crate::subject::{Subject, until_heard};
use crate::subjects::for_every_subject;
use crate::support::clients::LIMIT;
use crate::support::polls::poll_once;
use crate::support::proxy::Proxy;
use crate::support::server::RedisServer;
use crate::support::waiters::until;

/// Takes the object in a task.
pub fn waiting<S: Subject>(subject: &Arc<S>) -> JoinHandle<Result<bool>> {
    let subject = Arc::clone(subject);
    tokio::spawn(async move { subject.take(None).await })
}

pub async fn let_in(what: &str, task: JoinHandle<Result<bool>>) {
    let told = timeout(LIMIT, task).await;
    let told = told.unwrap_or_else(|_| panic!("{what}: it is not let in"));
    assert_eq!(told.unwrap(), Ok(true), "{what}");
}

/// A fault that keeps a client from hearing a notification.
#[derive(Debug, Clone, Copy)]
enum Loss {
    /// The connections for messages fall silent.
    Deaf,
    /// All connections fall silent.
    Silent,
    /// All connections end, and new connections are silent.
    Ended,
    /// The server ends the connections of one type.
    Killed(&'static str),
}

impl Loss {
    const ALL: [Loss; 5] = [
        Loss::Deaf,
        Loss::Silent,
        Loss::Ended,
        Loss::Killed("pubsub"),
        Loss::Killed("normal"),
    ];

    async fn strikes(self, proxy: &Proxy, redis: &mut MultiplexedConnection) {
        match self {
            Loss::Deaf => proxy.deafen(),
            Loss::Silent => proxy.blackhole(),
            Loss::Ended => {
                proxy.blackhole();
                proxy.cut();
            }
            Loss::Killed(kind) => {
                let mut kill = redis::cmd("CLIENT");
                kill.arg(&["KILL", "USER", "app", "TYPE", kind]);
                kill.exec_async(redis).await.unwrap();
            }
        }
    }
}

async fn while_nobody_hears_it<S: Subject>() {
    let server = RedisServer::options()
        .user("app on >pw ~* &* +@all")
        .start()
        .await;
    let mut redis = server.connection().await;
    let proxy = Proxy::start(&server).await;
    let client = builder(proxy.url_as("app", "pw")).connect().await.unwrap();
    let elsewhere = builder(server.url()).connect().await.unwrap();
    for loss in Loss::ALL {
        for round in 0..2 {
            let name = format!("{}-{loss:?}-{round}", S::NAME);
            let holder = S::new(&elsewhere, &name);
            holder.close().await.unwrap();
            let subject = Arc::new(S::new(&client, &name));
            let waits = waiting(&subject);
            until_heard(&mut redis, &name).await;
            if round == 0 {
                // The server answers this call after the waiter's own requests.
                let other = S::new(&client, &name);
                let tried = other.take(Some(std::time::Duration::ZERO)).await;
                assert_eq!(tried, Ok(false), "{name}");
            }
            loss.strikes(&proxy, &mut redis).await;
            let lost = proxy.lost();
            holder.open().await.unwrap();
            // In the other round the waiter's entry may arrive after the fault. The server sends it nothing then.
            if round == 0 && matches!(loss, Loss::Deaf | Loss::Silent) {
                until("the message is lost", LIMIT, async || proxy.lost() > lost).await;
            }
            proxy.clear();
            let_in(&name, waits).await;
            subject.give().await.unwrap();
        }
    }
}

#[tokio::test]
async fn let_in_while_nobody_hears_it() {
    for_every_subject!(while_nobody_hears_it);
}

/// Cuts the connections after each number of polls.
async fn at_each_poll<S: Subject>() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(&server).await;
    let elsewhere = builder(server.url()).connect().await.unwrap();
    for polls in 0..16 {
        let name = format!("{}-{polls}", S::NAME);
        let holder = S::new(&elsewhere, &name);
        holder.close().await.unwrap();
        // Each new client begins to listen here. The other test covers clients that are known to listen.
        let client = builder(proxy.url()).connect().await.unwrap();
        let subject = S::new(&client, &name);
        let mut call = pin!(subject.take(None));
        for _ in 0..polls {
            assert!(poll_once(&mut call).await == Poll::Pending, "{name}");
            tokio::task::yield_now().await;
        }
        proxy.cut();
        holder.open().await.unwrap();
        let told = timeout(LIMIT, call).await;
        let told = told.unwrap_or_else(|_| panic!("{name}: not let in"));
        assert_eq!(told, Ok(true), "{name}");
    }
}

#[tokio::test]
async fn connections_that_end_at_each_poll_of_a_caller() {
    for_every_subject!(at_each_poll);
}

/// A waiter stays in the queue while its connections end again and again, and is granted the object then.
async fn waits_on<S: Subject>() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let proxy = Proxy::start(&server).await;
    let client = builder(proxy.url()).connect().await.unwrap();
    let elsewhere = builder(server.url()).connect().await.unwrap();
    let name = format!("{}-waits-on", S::NAME);
    let holder = S::new(&elsewhere, &name);
    holder.close().await.unwrap();
    let subject = Arc::new(S::new(&client, &name));
    let waits = waiting(&subject);
    for _ in 0..3 {
        until_heard(&mut redis, &name).await;
        let opened = proxy.opened();
        proxy.cut();
        until("it is back", LIMIT, async || proxy.opened() > opened + 1).await;
    }
    until_heard(&mut redis, &name).await;
    assert!(!waits.is_finished());
    holder.open().await.unwrap();
    let_in(&name, waits).await;
}

#[tokio::test]
async fn whoever_waits_goes_on_waiting() {
    for_every_subject!(waits_on);
}
