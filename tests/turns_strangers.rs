//! Turns beside strangers: listeners that keep no record and take what they can get, as JVMs do.

mod support;

use std::time::Duration;

use futures::StreamExt;
use redis::AsyncCommands;
use redis::aio::{MultiplexedConnection, PubSub};
use redisson_semaphore::{RSemaphore, Result};
use support::channel::Channel;
use support::clients::{LIMIT, connect, release_as_redisson, served};
use support::crowd::Crowd;
use support::monitor::{Command, Monitor};
use support::server::RedisServer;
use support::waiters::{channel, until};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const NAME: &str = "strangers";
const LINE: &str = "redisson_sc_turns:{strangers}";
const NOTES: &str = "redisson_sc_turns_notes:{strangers}";
const GHOST: &str = "00000000-0000-0000-0000-000000000000";

fn acquire(semaphore: &RSemaphore) -> JoinHandle<Result<()>> {
    let semaphore = semaphore.clone();
    tokio::spawn(async move { semaphore.acquire(1).await })
}

/// Server time in microseconds.
async fn now(connection: &mut MultiplexedConnection) -> i64 {
    let (seconds, micros): (i64, i64) = redis::cmd("TIME").query_async(connection).await.unwrap();
    seconds * 1_000_000 + micros
}

/// Clients that wait beside a stranger, one after the other.
struct Waiting {
    server: RedisServer,
    connection: MultiplexedConnection,
    stranger: Option<Channel>,
    clients: Vec<RSemaphore>,
    waiters: Vec<JoinHandle<Result<()>>>,
}

impl Waiting {
    async fn start(count: usize) -> Waiting {
        let server = RedisServer::start().await;
        let mut connection = server.connection().await;
        let stranger = Channel::subscribe(&server, &channel(NAME)).await;
        let (mut clients, mut waiters) = (Vec::new(), Vec::new());
        for number in 1..=count {
            let client = connect(server.url()).await.semaphore(NAME);
            waiters.push(acquire(&client));
            clients.push(client);
            until("it stands in line", LIMIT, async || {
                let size: usize = connection.zcard(LINE).await.unwrap();
                size == number
            })
            .await;
            // Clearly before the next one: by more than 5 ms and a tenth of the time until it is served.
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        Waiting {
            server,
            connection,
            stranger: Some(stranger),
            clients,
            waiters,
        }
    }

    /// Strangers are owed so many permits.
    async fn owe(&mut self, permits: i64) {
        self.account(permits, 0).await;
    }

    /// And have taken so many since the last script.
    async fn account(&mut self, owed: i64, taken: i64) {
        let account = format!("{taken} {owed}.0000 1.0000 0 0.0000 5000");
        let _: () = self.connection.hset(NOTES, "*", account).await.unwrap();
    }

    /// Somebody who listens, stands in line since `since`, and does not come. What it hears.
    async fn ghost(&mut self, since: i64) -> PubSub {
        self.ghost_called(GHOST, since).await
    }

    async fn ghost_called(&mut self, id: &str, since: i64) -> PubSub {
        let client = redis::Client::open(self.server.url()).unwrap();
        let mut ear = client.get_async_pubsub().await.unwrap();
        ear.subscribe(format!("{LINE}:{id}")).await.unwrap();
        let note = format!("1 {} 0 5000 0 1", now(&mut self.connection).await);
        let _: () = self.connection.hset(NOTES, id, note).await.unwrap();
        let _: () = self.connection.zadd(LINE, id, since).await.unwrap();
        ear
    }
}

/// What is kept for those who never take anything does not grow with their number.
#[tokio::test]
async fn however_many_take_nothing_they_cost_one_moment_in_many_grants() {
    const STRANGERS: usize = 20;
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let mut strangers = Vec::new();
    for _ in 0..STRANGERS {
        strangers.push(Channel::subscribe(&server, &channel(NAME)).await);
    }
    let hold = Duration::from_millis(1);
    let (first, second) = (connect(server.url()).await, connect(server.url()).await);
    let semaphores = [first.semaphore(NAME), second.semaphore(NAME)];
    assert!(semaphores[0].try_set_permits(2).await.unwrap());
    let crowds = semaphores.map(|semaphore| Crowd::start(&semaphore, 4, 1, hold));
    let mut owed_a_grant = async || {
        let account: Option<String> = connection.hget(NOTES, "*").await.unwrap();
        let weight = account.and_then(|account| account.split(' ').nth(2)?.parse::<f64>().ok());
        weight.unwrap_or(1.0) * STRANGERS as f64 / crowds.len() as f64
    };
    until("they are owed little", LIMIT, async || {
        owed_a_grant().await < 0.05
    })
    .await;
}

/// A JVM on a busy machine, or far away, is owed no less for it.
#[tokio::test]
async fn strangers_who_come_late_have_their_share() {
    const TIMES: usize = 40;
    /// So many times 5 ms.
    const LATE: Duration = Duration::from_millis(15);
    const TAKE: &str = "if redis.call('GET', KEYS[1]) < '1' then return 0 end
        redis.call('DECR', KEYS[1]) return 1";
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let mut stranger = Channel::subscribe(&server, &channel(NAME)).await;
    let client = connect(server.url()).await.semaphore(NAME);
    assert!(client.try_set_permits(2).await.unwrap());
    let crowd = Crowd::start(&client, 8, 1, Duration::from_millis(5));
    for taken in 0..TIMES {
        loop {
            stranger.next().await;
            tokio::time::sleep(LATE).await;
            stranger.until_marker().await;
            let ours = crowd.served();
            assert!(ours < 16 * TIMES, "{taken} beside {ours}");
            let take = redis::Script::new(TAKE);
            if take.key(NAME).invoke_async(&mut connection).await.unwrap() {
                break;
            }
        }
        release_as_redisson(&mut connection, NAME, 1).await;
    }
    crowd.stop().await;
}

/// Who hears it answers what strangers say, as its turn comes soon.
#[tokio::test]
async fn who_has_come_near_the_head_of_the_line_is_told() {
    let mut world = Waiting::start(3).await;
    let latest = now(&mut world.connection).await + 3_600_000_000;
    let ear = world.ghost(latest).await;
    // One is served, two stand before it.
    release_as_redisson(&mut world.connection, NAME, 1).await;
    let told = timeout(LIMIT, ear.into_on_message().next()).await;
    let told = told.expect("it is told").expect("the connection stands");
    assert_eq!(told.get_payload::<String>().unwrap(), "soon");
    release_as_redisson(&mut world.connection, NAME, 2).await;
    for waiter in world.waiters.drain(..) {
        served(waiter).await;
    }
}

/// Strangers who release need not listen.
#[tokio::test]
async fn who_has_come_near_as_others_have_given_up_is_told() {
    for listens in [true, false] {
        let mut world = Waiting::start(3).await;
        world.stranger.take_if(|_| !listens);
        let latest = now(&mut world.connection).await + 3_600_000_000;
        let ear = world.ghost(latest).await;
        world.waiters.remove(1).abort();
        let told = timeout(LIMIT, ear.into_on_message().next()).await;
        let told = told.expect("it is told").expect("the connection stands");
        assert_eq!(told.get_payload::<String>().unwrap(), "soon");
    }
}

/// Strangers who have had more than they were owed would take what they release themselves: it is for whoever asks.
#[tokio::test]
async fn what_strangers_release_who_take_too_much_is_not_kept_for_the_first() {
    for (owed, kept) in [(-8, false), (0, true)] {
        let mut world = Waiting::start(2).await;
        let first = now(&mut world.connection).await - 5_000_000;
        let ear = world.ghost(first).await;
        world.owe(owed).await;
        release_as_redisson(&mut world.connection, NAME, 1).await;
        until("one is served", LIMIT, async || {
            world.waiters.iter().any(JoinHandle::is_finished)
        })
        .await;
        let end = "the end";
        let own = format!("{LINE}:{GHOST}");
        let _: () = world.connection.publish(own, end).await.unwrap();
        let messages = ear
            .into_on_message()
            .map(|said| said.get_payload().unwrap());
        let heard: Vec<String> = messages
            .take_while(|said| futures::future::ready(said != end))
            .collect()
            .await;
        assert_eq!(heard.contains(&"turn".to_owned()), kept, "{heard:?}");
        release_as_redisson(&mut world.connection, NAME, 1).await;
        for waiter in world.waiters.drain(..) {
            served(waiter).await;
        }
    }
}

/// Whether the script that released a permit has announced it on the semaphore's own channel.
fn announced(commands: &[Command]) -> bool {
    let releases = |command: &Command| command.args.iter().any(|word| word == "release");
    let release = commands.iter().position(releases).expect("it was released");
    let script = commands[release + 1..].iter();
    script
        .take_while(|command| command.is_lua())
        .any(|command| command.name == "PUBLISH" && command.args[0] == channel(NAME))
}

/// Permits of ours go to ours, as long as some of them wait; strangers are asked again when they are due to some.
#[tokio::test]
async fn strangers_who_take_too_much_do_not_hear_of_our_releases() {
    for (owed, heard) in [(-8, false), (0, true)] {
        let mut world = Waiting::start(3).await;
        let releasing = world.clients[0].clone();
        // It knows of the others.
        release_as_redisson(&mut world.connection, NAME, 1).await;
        served(world.waiters.remove(0)).await;
        world.owe(owed).await;
        let mut monitor = Monitor::start(&world.server).await;
        releasing.release(1).await.unwrap();
        served(world.waiters.remove(0)).await;
        let commands = monitor.until_marker().await;
        assert_eq!(announced(&commands), heard, "{commands:?}");
        // Nobody stands behind the last one.
        world.owe(-8).await;
        let mut monitor = Monitor::start(&world.server).await;
        releasing.release(1).await.unwrap();
        served(world.waiters.remove(0)).await;
        assert!(announced(&monitor.until_marker().await));
    }
}

/// The first of the line are told together where strangers are busy, as these may be faster than the first.
#[tokio::test]
async fn beside_strangers_who_take_too_much_several_are_told() {
    let mut world = Waiting::start(2).await;
    let latest = now(&mut world.connection).await + 3_600_000_000;
    let ear = world.ghost(latest).await;
    world.account(-8, 1).await;
    // One for its own caller, and one for the other's.
    world.clients[0].release(2).await.unwrap();
    for waiter in world.waiters.drain(..) {
        served(waiter).await;
    }
    let told = timeout(LIMIT, ear.into_on_message().next()).await;
    let told = told.expect("it is told").expect("the connection stands");
    assert_eq!(told.get_payload::<String>().unwrap(), "turn");
}

/// Who releases looks after it.
#[tokio::test]
async fn strangers_hear_of_what_ours_do_not_come_for() {
    let mut world = Waiting::start(1).await;
    release_as_redisson(&mut world.connection, NAME, 1).await;
    served(world.waiters.remove(0)).await;
    let latest = now(&mut world.connection).await;
    let mut ears = Vec::new();
    for ghost in ["1", "2", "3"] {
        let ghost = format!("{ghost:0>36}");
        ears.push(world.ghost_called(&ghost, latest - 5_000_000).await);
    }
    world.owe(-8).await;
    let mut stranger = Channel::subscribe(&world.server, &channel(NAME)).await;
    let releasing = world.clients[0].clone();
    releasing.release(1).await.unwrap();
    let told = timeout(LIMIT, stranger.next()).await;
    assert_eq!(told.expect("it hears of it").payload, "+1");
}
