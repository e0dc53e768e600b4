//! Futures that are begun and then neither polled nor dropped: they hold nobody up, and are answered in the end.

use std::pin::pin;
use std::task::Poll;

use tokio::time::timeout;

use crate::lost::builder;
use crate::subject::{Books, End, Expected, Subject, pass};
use crate::subjects::for_every_subject;
use crate::support::clients::LIMIT;
use crate::support::polls::poll_once;
use crate::support::server::RedisServer;

async fn holds_nobody_up<S: Subject>() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = builder(server.url()).connect().await.unwrap();
    let elsewhere = builder(server.url()).connect().await.unwrap();
    let mut books = Books::new(Expected::of::<S>(&client, &mut redis).await);
    for (call, kind) in S::CALLS {
        for polls in 1..6 {
            let name = format!("{}-{polls}-{call}", S::NAME);
            let subject = S::new(&client, &name);
            subject.prepare(call).await.unwrap();
            let answer = {
                let mut left = pin!(subject.call(call));
                let mut answer = None;
                for _ in 0..polls {
                    if answer.is_none()
                        && let Poll::Ready(told) = poll_once(&mut left).await
                    {
                        answer = Some(told);
                    }
                    tokio::task::yield_now().await;
                }
                for (whose, others) in [("its own", &client), ("another", &elsewhere)] {
                    let passed = timeout(LIMIT, pass::<S>(others, &name)).await;
                    let passed =
                        passed.unwrap_or_else(|_| panic!("{name}: {whose} client is held up"));
                    assert_eq!(passed, Ok(()), "{name}: {whose} client");
                }
                match answer {
                    Some(told) => told,
                    None => timeout(LIMIT, left).await.expect("it is still answered"),
                }
            };
            let what = format!("{name}: left alone after {polls} polls, then told {answer:?}");
            let end = End::told(*kind, &answer);
            assert_eq!(end, End::Done, "{what}");
            books.settled(&mut redis, what, subject, call, end).await;
        }
    }
    books.close(&mut redis, client).await;
}

#[tokio::test]
async fn a_call_left_alone_holds_nobody_up() {
    for_every_subject!(holds_nobody_up);
}
