//! Calls for those who may have been left asleep: they end, whoever listens, and cost next to nothing where nobody does.

mod support;

use std::time::Duration;

use support::channel::Channel;
use support::clients::{LIMIT, connect, served, stored};
use support::monitor::{Command, Monitor};
use support::server::RedisServer;
use support::waiters::{until, until_subscribers, waiter};

const WINDOW: Duration = Duration::from_secs(5);

fn messages(commands: &[Command]) -> usize {
    commands.iter().filter(|one| one.name == "PUBLISH").count()
}

/// How many messages a release that leaves permits causes within a while.
async fn messages_after_a_release(server: &RedisServer) -> usize {
    let client = connect(server.url()).await;
    let semaphore = client.semaphore("quiet");
    semaphore.try_set_permits(2).await.unwrap();
    let mut monitor = Monitor::start(server).await;
    semaphore.release(1).await.unwrap();
    tokio::time::sleep(WINDOW).await;
    let first = messages(&monitor.until_marker().await);
    tokio::time::sleep(WINDOW / 2).await;
    // One of the late ones may be among them.
    let more = messages(&monitor.until_marker().await);
    assert!(more <= 16, "it goes on: {more}");
    first
}

#[tokio::test]
async fn who_hears_all_channels_is_no_waiter() {
    let server = RedisServer::start().await;
    let _listener = Channel::pattern(&server, "*").await;
    assert_eq!(messages_after_a_release(&server).await, 1);
}

/// Channels know no databases.
#[tokio::test]
async fn who_waits_in_another_database_is_called_for_a_while_only() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let elsewhere = connect(format!("{}/1", server.url())).await;
    let waiting = waiter(&mut control, &elsewhere.semaphore("quiet"), 1).await;
    assert!(messages_after_a_release(&server).await <= 60);
    waiting.abort();
}

#[tokio::test]
async fn where_nobody_listens_a_release_costs_one_script() {
    let server = RedisServer::start().await;
    let client = connect(server.url()).await;
    let names: Vec<String> = (0..100).map(|number| format!("alone {number}")).collect();
    let mut monitor = Monitor::start(&server).await;
    for round in 0..5 {
        for name in &names {
            // Every time a new handle.
            client.semaphore(name).release(1).await.unwrap();
        }
        // The last ones are looked after for a while.
        let pause = if round < 4 { WINDOW / 50 } else { WINDOW };
        tokio::time::sleep(pause).await;
    }
    let commands = monitor.until_marker().await;
    let count = |names: &[&str]| {
        let named = |one: &&Command| !one.is_lua() && names.contains(&one.name.as_str());
        commands.iter().filter(named).count()
    };
    // The first one of all is sent twice: its script is not known yet.
    assert!(count(&["EVAL", "EVALSHA"]) <= 502);
    assert!(count(&["PUBSUB"]) <= 6, "{}", count(&["PUBSUB"]));
    assert_eq!(messages(&commands), 500);
}

/// Clients that keep turns look by themselves: of hundreds, each would call out to all, for each permit handed on.
#[tokio::test]
async fn what_is_handed_on_among_clients_that_keep_turns_is_not_called_out() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(connect(server.url()).await.semaphore("quiet"));
    }
    clients[0].try_set_permits(1).await.unwrap();
    clients[0].acquire(1).await.unwrap();
    let mut monitor = Monitor::start(&server).await;
    let second = waiter(&mut control, &clients[1], 1).await;
    clients[0].release(1).await.unwrap();
    served(second).await;
    // From now on somebody listens, and nothing is free.
    let third = waiter(&mut control, &clients[2], 1).await;
    // Who listens asks whether it is heard itself, by a channel with its id.
    let of_its_own = |name: &String| name.matches('-').count() >= 4;
    let asks = |one: &Command| {
        let counts = !one.is_lua() && one.name == "PUBSUB" && one.args[0] == "NUMSUB";
        counts && !one.args.iter().any(of_its_own)
    };
    let mut commands = Vec::new();
    until("the first client asks who listens", LIMIT, async || {
        commands.extend(monitor.until_marker().await);
        commands.iter().any(|one| asks(one) && one.args.len() > 2)
    })
    .await;
    tokio::time::sleep(WINDOW / 4).await;
    commands.extend(monitor.until_marker().await);
    let asked = commands
        .iter()
        .position(|one| asks(one) && one.args.len() > 2);
    let (asked, later) = commands[asked.unwrap()..].split_first().unwrap();
    let calls = |one: &&Command| one.client == asked.client && one.name.starts_with("EVAL");
    assert_eq!(later.iter().filter(calls).count(), 0, "{later:?}");
    third.abort();
}

#[tokio::test]
async fn permits_that_come_under_another_name_wake_those_who_wait_for_it() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    // Nobody looks without a reason.
    let client = connect(server.url()).await;
    let other = connect(server.url()).await;
    let target = client.semaphore("target");
    let source = other.semaphore("source");

    let waiting = waiter(&mut control, &target, 2).await;
    source.try_set_permits(3).await.unwrap();
    source.rename("target").await.unwrap();
    served(waiting).await;
    until_subscribers(&mut control, "redisson_sc:{target}", 0).await;

    let waiting = waiter(&mut control, &target, 3).await;
    source.try_set_permits(4).await.unwrap();
    assert!(source.copy_and_replace("target").await.unwrap());
    served(waiting).await;
    until_subscribers(&mut control, "redisson_sc:{target}", 0).await;

    target.delete().await.unwrap();
    let waiting = waiter(&mut control, &target, 2).await;
    assert!(source.copy("target").await.unwrap());
    served(waiting).await;
    until_subscribers(&mut control, "redisson_sc:{target}", 0).await;

    target.delete().await.unwrap();
    let waiting = waiter(&mut control, &target, 4).await;
    assert!(source.rename_nx("target").await.unwrap().is_some());
    served(waiting).await;
    assert_eq!(stored(&server, "target").await, ["0"]);
}
