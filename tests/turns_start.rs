//! Turns at their beginning: whoever waits stands in line as soon as somebody else does, whoever of them came first, and
//! whatever was under way when they did.
//!
//! Nobody looks by itself here: who is not counted waits for ever.

mod support;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{RSemaphore, Result};
use support::clients::{LIMIT, builder, connect, publish, release_as_redisson, served};
use support::proxy::{Fate, Proxy};
use support::server::RedisServer;
use support::waiters::{channel, until, until_subscribers};
use tokio::task::JoinHandle;

const NAME: &str = "start";
const LINE: &str = "redisson_sc_turns:{start}";
const GHOST: &str = "00000000-0000-0000-0000-000000000000";

fn acquire(semaphore: &RSemaphore) -> JoinHandle<Result<()>> {
    let semaphore = semaphore.clone();
    tokio::spawn(async move { semaphore.acquire(1).await })
}

/// Who stands in line, the first one first.
async fn line(connection: &mut MultiplexedConnection) -> Vec<String> {
    connection
        .zrange(LINE, 0, -1)
        .await
        .expect("a line, or none")
}

async fn until_in_line(connection: &mut MultiplexedConnection, count: usize) {
    until(&format!("{count} stand in line"), LIMIT, async || {
        line(connection).await.len() == count
    })
    .await;
}

/// Serves each of `waiting`, as Redisson would, by one message for all of them.
async fn serve(
    connection: &mut MultiplexedConnection,
    waiting: impl IntoIterator<Item = JoinHandle<Result<()>>>,
) {
    let waiting: Vec<_> = waiting.into_iter().collect();
    let permits = u32::try_from(waiting.len()).expect("few");
    release_as_redisson(connection, NAME, permits).await;
    for waiter in waiting {
        served(waiter).await;
    }
}

/// What it is told may come before the answer to what it asked earlier.
#[tokio::test]
async fn who_is_called_while_it_asks_stands_in_line() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(&server).await;
    let mut connection = server.connection().await;
    let first = builder(proxy.url()).response_timeout(LIMIT);
    let first = first.connect().await.expect("the server runs");
    let second = connect(server.url()).await;
    let elsewhere = acquire(&first.semaphore("elsewhere"));
    until_subscribers(&mut connection, &channel("elsewhere"), 1).await;
    assert_eq!(
        first.semaphore("elsewhere").available_permits().await,
        Ok(0)
    );
    // Behind its first question comes the one that it asks when it hears the channels.
    proxy.at_script(2, Fate::HoldReply);
    let alone = acquire(&first.semaphore(NAME));
    proxy.until_struck(1).await;
    let other = acquire(&second.semaphore(NAME));
    until_in_line(&mut connection, 1).await;
    // By the answer to what is said after the call it has been heard.
    let asked = proxy.scripts();
    publish(&mut connection, "elsewhere", "1").await;
    proxy.until_scripts(asked + 1).await;
    proxy.deliver(1).await;
    until_in_line(&mut connection, 2).await;
    serve(&mut connection, [alone, other]).await;
    elsewhere.abort();
}

/// A client that waited a moment ago hears the channel still, and believes that nobody else does.
#[tokio::test]
async fn who_comes_back_finds_out_who_has_come_meanwhile() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let (first, second) = (connect(server.url()).await, connect(server.url()).await);
    let semaphore = first.semaphore(NAME);
    let waits = acquire(&semaphore);
    until_subscribers(&mut connection, &channel(NAME), 1).await;
    serve(&mut connection, [waits]).await;
    let other = acquire(&second.semaphore(NAME));
    until_in_line(&mut connection, 1).await;
    let again = acquire(&semaphore);
    until_in_line(&mut connection, 2).await;
    serve(&mut connection, [other, again]).await;
}

/// A place that somebody has left behind who is not there any more.
#[tokio::test]
async fn a_line_is_not_the_older_for_those_who_died_in_it() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let (first, second) = (connect(server.url()).await, connect(server.url()).await);
    let _: () = connection.zadd(LINE, GHOST, 1).await.unwrap();
    let alone = acquire(&first.semaphore(NAME));
    until_subscribers(&mut connection, LINE, 1).await;
    // It has asked behind that.
    assert_eq!(first.semaphore(NAME).available_permits().await, Ok(0));
    let other = acquire(&second.semaphore(NAME));
    until("both stand in line", LIMIT, async || {
        let line = line(&mut connection).await;
        line.iter().filter(|client| *client != GHOST).count() == 2
    })
    .await;
    serve(&mut connection, [alone, other]).await;
}

/// Whoever finds itself alone in line calls the others once more, each time it asks.
#[tokio::test]
async fn who_is_alone_in_line_calls_again() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let (first, second) = (connect(server.url()).await, connect(server.url()).await);
    let one = acquire(&first.semaphore(NAME));
    until_subscribers(&mut connection, LINE, 1).await;
    let other = acquire(&second.semaphore(NAME));
    until_in_line(&mut connection, 2).await;
    let places = line(&mut connection).await;
    let _: () = connection.zrem(LINE, &places[0]).await.unwrap();
    until("it comes back", LIMIT, async || {
        // The other one asks.
        let turn = format!("{LINE}:{}", places[1]);
        let _: () = connection.publish(turn, "turn").await.unwrap();
        line(&mut connection).await.len() == 2
    })
    .await;
    serve(&mut connection, [one, other]).await;
}

/// What the answer told of turns is told once: a repetition finds what is on record.
#[tokio::test]
async fn whose_answer_was_lost_sees_to_it_that_those_come_who_were_told() {
    let server = RedisServer::start().await;
    let (lossy, frozen) = (Proxy::start(&server).await, Proxy::start(&server).await);
    let mut connection = server.connection().await;
    let holder = connect(lossy.url()).await.semaphore(NAME);
    let holds = acquire(&holder);
    until_subscribers(&mut connection, LINE, 1).await;
    serve(&mut connection, [holds]).await;
    let (first, second) = (connect(frozen.url()).await, connect(server.url()).await);
    let away = acquire(&first.semaphore(NAME));
    // It came clearly before: its question has been answered since.
    until_subscribers(&mut connection, &format!("{LINE}:{}", first.id()), 1).await;
    let behind = acquire(&second.semaphore(NAME));
    until_in_line(&mut connection, 2).await;
    assert_eq!(line(&mut connection).await[0], first.id());
    frozen.blackhole();
    lossy.at_script(1, Fate::LoseReplyAndClose);
    holder.release(1).await.unwrap();
    served(behind).await;
    away.abort();
}
