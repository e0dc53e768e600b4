//! The server becomes a replica, which answers and changes nothing: each call ends, and nothing has happened of those that are told
//! so. A master again, it is asked by the same client as before.

use std::time::Duration;

use futures::future::join_all;
use redisson_semaphore::Effect;

use crate::subject::{Books, End, Expected, HOUR, Kind, Subject, in_time, pass};
use crate::subjects::for_every_subject;
use crate::support::clients;
use crate::support::server::{NOWHERE, RedisServer, replica_of};

async fn becomes_a_replica<S: Subject>() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let builder = clients::builder(server.url()).lock_watchdog_timeout(HOUR);
    let client = builder
        .retry_window(Duration::from_secs(1))
        .connect()
        .await
        .unwrap();
    let mut books = Books::new(Expected::of::<S>(&client, &mut redis).await);
    let mut subjects = Vec::new();
    for (call, kind) in S::CALLS {
        let subject = S::new(&client, &format!("{}-replica-{call}", S::NAME));
        subject.prepare(call).await.unwrap();
        subjects.push((subject, *call, *kind));
    }
    replica_of(&mut redis, Some(NOWHERE)).await;
    let calls = subjects.iter();
    let all = join_all(calls.map(|(subject, call, _)| in_time(subject, call))).await;
    replica_of(&mut redis, None).await;
    for ((subject, call, kind), told) in subjects.into_iter().zip(all) {
        let name = format!("{}-replica-{call}", S::NAME);
        let what = format!("{name}: told {told:?}");
        match &told {
            Ok(_) => {
                let changes_nothing = matches!(kind, Kind::Nothing | Kind::Look);
                assert!(changes_nothing || call.ends_with("drop"), "{what}");
            }
            Err(error) => {
                assert!(error.is_unavailable(), "{what}");
                let text = error.to_string();
                assert!(text.contains(&name) && text.contains("READONLY"), "{what}");
                // What is given back is given back in the end.
                let owed = error.effect() == Effect::Unknown;
                assert_eq!(owed, kind == Kind::Give, "{what}");
            }
        }
        let end = End::told(kind, &told);
        // What a watched guard owes comes back with the next answer about its semaphore.
        pass::<S>(&client, &name).await.unwrap();
        books.settled(&mut redis, what, subject, call, end).await;
    }
    books.close(&mut redis, client).await;
}

#[tokio::test]
async fn a_server_that_becomes_a_replica() {
    for_every_subject!(becomes_a_replica);
}
