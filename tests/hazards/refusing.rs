//! A server that takes no changes for now: it is a replica, it lacks a replica, or it lacks memory. Calls are repeated until it takes
//! them. Where it does not in time, each call ends with the server's words, and says the truth of its effect.

use std::time::Duration;

use futures::future::join_all;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Effect, Error};

use crate::subject::{Books, End, Expected, HOUR, Kind, Subject, in_time, pass, tell_all};
use crate::subjects::for_every_subject;
use crate::support::clients::{self, LIMIT};
use crate::support::server::{NOWHERE, RedisServer, limit_memory, replica_of};
use crate::support::waiters::until;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    Replica,
    NoReplica,
    NoMemory,
}

impl Reason {
    const ALL: [Reason; 3] = [Reason::Replica, Reason::NoReplica, Reason::NoMemory];

    /// The first word of the refusal.
    fn word(self) -> &'static str {
        match self {
            Reason::Replica => "READONLY",
            Reason::NoReplica => "NOREPLICAS",
            Reason::NoMemory => "OOM",
        }
    }

    async fn set(self, redis: &mut MultiplexedConnection, on: bool) {
        let value = if on { "1" } else { "0" };
        let setting = match self {
            Reason::Replica => return replica_of(redis, on.then_some(NOWHERE)).await,
            Reason::NoReplica => "min-replicas-to-write",
            Reason::NoMemory => return limit_memory(redis, value).await,
        };
        let mut command = redis::cmd("CONFIG");
        command.arg(&["SET", setting, value]);
        command.exec_async(redis).await.unwrap();
    }

    fn name<S: Subject>(self, call: &str) -> String {
        format!("{}-{}-{call}", S::NAME, self.word())
    }
}

async fn refuses_for_longer<S: Subject>() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let builder = clients::patient(server.url()).lock_watchdog_timeout(HOUR);
    let client = builder
        .retry_window(Duration::from_secs(2))
        .connect()
        .await
        .unwrap();
    let mut books = Books::new(Expected::of::<S>(&client, &mut redis).await);
    for reason in Reason::ALL {
        let mut subjects = Vec::new();
        for (call, kind) in S::CALLS {
            let subject = S::new(&client, &reason.name::<S>(call));
            subject.prepare(call).await.unwrap();
            subjects.push((subject, *call, *kind));
        }
        reason.set(&mut redis, true).await;
        let all = tell_all(&subjects).await;
        reason.set(&mut redis, false).await;
        for ((subject, call, kind), told) in subjects.into_iter().zip(all) {
            let name = reason.name::<S>(call);
            let what = format!("{name}: told {told:?}");
            match &told {
                // A release may need no memory.
                Ok(_) if reason == Reason::NoMemory => {}
                Ok(_) => {
                    let changes_nothing = matches!(kind, Kind::Nothing | Kind::Look);
                    assert!(changes_nothing || call.ends_with("drop"), "{what}");
                }
                Err(error) => {
                    assert!(error.is_unavailable(), "{what}");
                    let text = error.to_string();
                    assert!(
                        text.contains(&name) && text.contains(reason.word()),
                        "{what}"
                    );
                    // A release is carried out in the end.
                    let owed = error.effect() == Effect::Unknown;
                    assert_eq!(owed, kind == Kind::Give, "{what}");
                    let for_now = matches!(error, Error::RefusedForNow { .. });
                    assert!(for_now || owed, "{what}");
                }
            }
            let end = End::told(kind, &told);
            // The release of a watched guard departs with the next call about its semaphore.
            pass::<S>(&client, &name).await.unwrap();
            books.settled(&mut redis, what, subject, call, end).await;
        }
    }
    books.close(&mut redis, client).await;
}

#[tokio::test]
async fn a_server_that_takes_no_changes_is_quoted_and_nothing_has_happened() {
    for_every_subject!(refuses_for_longer);
}

async fn refuses_for_a_while<S: Subject>() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = clients::patient(server.url()).lock_watchdog_timeout(HOUR);
    let client = client.connect().await.unwrap();
    let mut books = Books::new(Expected::of::<S>(&client, &mut redis).await);
    for reason in Reason::ALL {
        let mut subjects = Vec::new();
        for (call, _) in S::CALLS {
            let subject = S::new(&client, &reason.name::<S>(call));
            subject.prepare(call).await.unwrap();
            subjects.push(subject);
        }
        let before = clients::errors(&mut redis, reason.word()).await;
        reason.set(&mut redis, true).await;
        let calls = subjects.iter().zip(S::CALLS);
        let calls = join_all(calls.map(|(subject, (call, _))| in_time(subject, call)));
        let lift = async {
            let again = before + 2 * S::CALLS.len() as u64;
            until("they are refused again and again", LIMIT, async || {
                clients::errors(&mut redis, reason.word()).await > again
            })
            .await;
            reason.set(&mut redis, false).await;
        };
        let (all, ()) = tokio::join!(calls, lift);
        for ((subject, told), (call, _)) in subjects.into_iter().zip(all).zip(S::CALLS) {
            let what = reason.name::<S>(call);
            assert_eq!(told, Ok(true), "{what}");
            books
                .settled(&mut redis, what, subject, call, End::Done)
                .await;
        }
    }
    books.close(&mut redis, client).await;
}

#[tokio::test]
async fn a_server_that_takes_no_changes_for_a_while_is_waited_for() {
    for_every_subject!(refuses_for_a_while);
}
