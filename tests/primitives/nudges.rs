//! Repeated wake-ups of JVMs that may have been left asleep: they end, and cost next to nothing where no JVM listens.

use std::time::Duration;

use crate::support::channel::Channel;
use crate::support::clients::{
    LIMIT, connect, patient, served, start_behind_a_proxy, start_controlled, stored,
};
use crate::support::monitor::{Command, Monitor};
use crate::support::proxy::Fate;
use crate::support::server::RedisServer;
use crate::support::waiters::{channel, until_subscribers, waiter};
use tokio::time::timeout;

/// Between the repetition after a second and that after five.
const WINDOW: Duration = Duration::from_secs(3);

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
    let (server, mut control) = start_controlled().await;
    let elsewhere = connect(format!("{}/1", server.url())).await;
    let waiting = elsewhere.semaphore("quiet");
    let waiting = tokio::spawn(async move { waiting.acquire(1).await });
    until_subscribers(&mut control, &channel("quiet"), 1).await;
    assert!(messages_after_a_release(&server).await <= 60);
    waiting.abort();
}

#[tokio::test]
async fn where_nobody_listens_a_release_costs_one_script() {
    let server = RedisServer::start().await;
    // Nothing is sent twice where the machine is slow.
    let client = patient(server.url()).connect().await.unwrap();
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
    // The first one of all is sent twice: its script is not known yet. The handles have gone, and with them what comes later.
    let scripts = commands.iter().filter(|one| one.is_script()).count();
    assert!(scripts <= 502, "{scripts}");
    assert!(count(&["PUBSUB"]) <= 6, "{}", count(&["PUBSUB"]));
    assert_eq!(messages(&commands), 500);
}

#[tokio::test]
async fn permits_that_come_under_another_name_wake_those_who_wait_for_it() {
    let (server, mut control) = start_controlled().await;
    // Nobody looks without a reason.
    let target = connect(server.url()).await.semaphore("target");
    let source = connect(server.url()).await.semaphore("source");
    for way in ["rename", "copy_and_replace", "copy", "rename_nx"] {
        match way {
            "copy_and_replace" => drop(target.drain_permits().await.unwrap()),
            _ => drop(target.delete().await.unwrap()),
        }
        let waiting = waiter(&mut control, &target, 2).await;
        source.try_set_permits(4).await.unwrap();
        let object = source.object();
        let done = match way {
            "rename" => object.rename("target").await.map(|_| true),
            "copy_and_replace" => object.copy_and_replace("target").await,
            "copy" => object.copy("target").await,
            _ => object.rename_nx("target").await.map(|new| new.is_some()),
        };
        assert_eq!(done, Ok(true), "{way}");
        served(waiting).await;
        assert_eq!(stored(&server, "target").await, ["2"], "{way}");
        until_subscribers(&mut control, "redisson_sc:{target}", 0).await;
    }
}

/// Also when the reply to the release is lost.
#[tokio::test]
async fn free_permit_is_announced_again() {
    for lost in [false, true] {
        let (server, proxy) = start_behind_a_proxy().await;
        let semaphore = connect(proxy.url()).await.semaphore("asleep");
        semaphore.try_set_permits(1).await.unwrap();
        assert!(semaphore.try_acquire(1).await.unwrap());
        let mut heard = Channel::subscribe(&server, &channel("asleep")).await;
        if lost {
            proxy.at_script(1, Fate::LoseReplyAndClose);
        }
        semaphore.release(1).await.unwrap();
        assert_eq!(proxy.struck(), u64::from(lost));
        assert_eq!(stored(&server, "asleep").await, ["1"]);
        assert_eq!(heard.next().await.payload, "1");
        // A JVM may not have been woken by the first message.
        let again = timeout(LIMIT, heard.next()).await;
        assert_eq!(again.expect("another message").payload, "16");
    }
}
