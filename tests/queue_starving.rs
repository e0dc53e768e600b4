//! Turns where somebody could wait for ever, and what a grant costs in a crowd of clients.

mod support;

use std::time::{Duration, Instant};

use futures::future::join_all;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, RSemaphore, Result};
use support::clients::{builder, connect, release_as_redisson, scripts, served};
use support::crowd::Crowd;
use support::monitor::{Command, Monitor};
use support::proxy::{Fate, Proxy};
use support::server::RedisServer;
use support::waiters::{channel, until, until_subscribers};
use tokio::task::JoinHandle;

const NAME: &str = "starving";
const LIMIT: Duration = Duration::from_secs(60);

async fn semaphore(url: String) -> RSemaphore {
    let client = Client::connect(url).await;
    client.expect("the server runs").semaphore(NAME)
}

async fn semaphores(server: &RedisServer, permits: u32, count: usize) -> Vec<RSemaphore> {
    let all = join_all((0..count).map(|_| semaphore(server.url()))).await;
    assert!(all[0].try_set_permits(permits).await.unwrap());
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_clients_have_equal_shares_at_the_cost_of_two() {
    const CLIENTS: usize = 100;
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let clients = semaphores(&server, 1, CLIENTS).await;
    let hold = Duration::from_millis(5);
    let crowds: Vec<Crowd> = clients
        .iter()
        .map(|client| Crowd::start(client, 1, 1, hold))
        .collect();
    until("each has been served", LIMIT, async || {
        crowds.iter().all(|crowd| crowd.served() > 0)
    })
    .await;
    for crowd in &crowds {
        crowd.take();
    }
    let before = scripts(&mut connection).await;
    let mut monitor = Monitor::start(&server).await;
    let total = || crowds.iter().map(Crowd::served).sum::<usize>();
    until("all are served five times", LIMIT, async || {
        total() >= 5 * CLIENTS
    })
    .await;
    let cost = (scripts(&mut connection).await - before) as f64 / total() as f64;
    let commands = monitor.until_marker().await;
    let looks = commands.iter().filter(|one| is_short_look(one)).count();
    let shares: Vec<usize> = crowds.iter().map(Crowd::served).collect();
    assert!(
        shares.iter().all(|share| (3..=7).contains(share)),
        "{shares:?}"
    );
    assert!(cost <= 8.0, "{cost} scripts a grant");
    // Whoever has released waits again, and looks after those who were told: mostly there is nothing free by then.
    assert!(looks > CLIENTS / 2, "{looks} looks read the counter alone");
}

/// It reads the counter, and needs no script.
fn is_short_look(command: &Command) -> bool {
    command.name == "GET" && !command.is_lua()
}

/// A holder, behind a proxy, who knows that two clients stand in line, and that they are frozen it does not.
struct Held {
    proxy: Proxy,
    _frozen: Proxy,
    server: RedisServer,
    connection: MultiplexedConnection,
    semaphore: RSemaphore,
}

impl Held {
    async fn before_the_frozen() -> Held {
        let server = RedisServer::start().await;
        let (proxy, frozen) = (Proxy::start(&server).await, Proxy::start(&server).await);
        let mut connection = server.connection().await;
        let holder = builder(proxy.url()).response_timeout(LIMIT);
        let semaphore = holder
            .connect()
            .await
            .expect("the server runs")
            .semaphore(NAME);
        semaphore.try_set_permits(1).await.unwrap();
        semaphore.acquire(1).await.unwrap();
        let _away = acquire(&self::semaphore(frozen.url()).await);
        until_subscribers(&mut connection, &channel(NAME), 1).await;
        let _away = acquire(&self::semaphore(frozen.url()).await);
        until_in_line(&mut connection, 2).await;
        let knows = acquire(&semaphore);
        until_in_line(&mut connection, 3).await;
        knows.abort();
        until_in_line(&mut connection, 2).await;
        frozen.blackhole();
        Held {
            proxy,
            _frozen: frozen,
            server,
            connection,
            semaphore,
        }
    }

    /// Somebody takes what is free.
    async fn is_taken(&mut self) {
        let () = self.connection.set(NAME, 0).await.unwrap();
    }
}

fn acquire(semaphore: &RSemaphore) -> JoinHandle<Result<()>> {
    let semaphore = semaphore.clone();
    tokio::spawn(async move { semaphore.acquire(1).await })
}

/// Who has released looks whether those came who were told. Where somebody else has taken what they did not come for, that costs the
/// reading of a counter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_where_nothing_is_free_reads_the_counter_alone() {
    let mut held = Held::before_the_frozen().await;
    held.proxy.at_get(Fate::HoldRequest);
    held.semaphore.release(1).await.unwrap();
    held.proxy.until_struck(1).await;
    held.is_taken().await;
    let mut monitor = Monitor::start(&held.server).await;
    held.proxy.deliver(1).await;
    // One round at a time.
    held.semaphore.remaining_ttl().await.unwrap();
    let commands = monitor.until_marker().await;
    let of_clients = commands.iter().filter(|command| !command.is_lua());
    let names: Vec<_> = of_clients.map(|command| command.name.as_str()).collect();
    assert_eq!(names, ["GET", "PTTL"]);
    // Whoever stood there does still.
    until_in_line(&mut held.connection, 2).await;
}

/// Somebody who has just come travels with that look, and is to stand in line.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_that_has_something_to_tell_tells_it_where_nothing_is_free() {
    let mut held = Held::before_the_frozen().await;
    held.proxy.at_script(2, Fate::HoldReply);
    held.semaphore.release(1).await.unwrap();
    let asks = tokio::spawn({
        let semaphore = held.semaphore.clone();
        async move { semaphore.available_permits().await }
    });
    held.proxy.until_struck(1).await;
    held.is_taken().await;
    let comes = acquire(&held.semaphore);
    let mut monitor = Monitor::start(&held.server).await;
    // The look is due by then. If it should not be, both travel apart.
    tokio::time::sleep(Duration::from_millis(100)).await;
    held.proxy.deliver(1).await;
    asks.await.unwrap().unwrap();
    until_in_line(&mut held.connection, 3).await;
    let commands = monitor.until_marker().await;
    // Where its channels have been left meanwhile it asks once more when it hears them again.
    let is_look = |one: &&Command| one.name.starts_with("EVAL") || is_short_look(one);
    let first = commands.iter().find(is_look);
    assert!(
        first.is_some_and(|first| !is_short_look(first)),
        "{commands:?}"
    );
    release_as_redisson(&mut held.connection, NAME, 1).await;
    served(comes).await;
}

/// The longest of three waits for all 8 permits beside 16 callers of another client, each with one for `hold` or a bit more.
/// `disturb` has the server's connection before each.
async fn large_beside_small(
    hold: Duration,
    disturb: impl AsyncFn(&mut MultiplexedConnection),
) -> Duration {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let clients = semaphores(&server, 8, 2).await;
    // They do not give back at the same time.
    let crowds: Vec<Crowd> = (0..16)
        .map(|number| Crowd::start(&clients[0], 1, 1, hold + number * hold / 16))
        .collect();
    let mut longest = Duration::ZERO;
    for _ in 0..3 {
        join_all(crowds.iter().map(|crowd| crowd.until_served(3))).await;
        disturb(&mut connection).await;
        let began = Instant::now();
        tokio::time::timeout(LIMIT, clients[1].acquire(8))
            .await
            .expect("served before the test's limit")
            .unwrap();
        longest = longest.max(began.elapsed());
        clients[1].release(8).await.unwrap();
    }
    join_all(crowds.into_iter().map(Crowd::stop)).await;
    longest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_request_is_not_passed_for_ever_by_small_ones_of_another_process() {
    let holds = [4, 20, 50].map(Duration::from_millis);
    let waits = join_all(holds.map(|hold| large_beside_small(hold, async |_| ()))).await;
    for waited in waits {
        assert!(waited < Duration::from_secs(10), "{waited:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_time_in_the_notes_does_not_keep_a_large_request_waiting() {
    let in_half_an_hour = async |connection: &mut MultiplexedConnection| {
        let (seconds, _): (u64, u64) = redis::cmd("TIME").query_async(connection).await.unwrap();
        let notes = format!("redisson_sc_turns_notes:{{{NAME}}}");
        let time = format!("{}000000", seconds + 1800);
        let () = connection.hset(notes, "=", time).await.unwrap();
    };
    let waited = large_beside_small(Duration::from_millis(20), in_half_an_hour).await;
    assert!(waited < Duration::from_secs(10), "{waited:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_for_more_than_there_ever_is_does_not_stop_the_others() {
    let server = RedisServer::start().await;
    let clients = semaphores(&server, 8, 3).await;
    let impossible = tokio::spawn({
        let client = clients[0].clone();
        async move { client.acquire(9).await }
    });
    let crowds = [&clients[1], &clients[2]]
        .map(|client| Crowd::start(client, 8, 1, Duration::from_millis(5)));
    for crowd in &crowds {
        crowd.until_served(400).await;
    }
    impossible.abort();
    for crowd in crowds {
        crowd.stop().await;
    }
}

/// Something is free, and too little for each of them, who came at the same time: one stops the line, and few look whether that goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_stands_still_costs_little_whoever_stands_in_it() {
    const CLIENTS: usize = 20;
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let in_vain: Vec<_> = semaphores(&server, 2, CLIENTS)
        .await
        .into_iter()
        .map(|client| tokio::spawn(async move { client.acquire(3).await }))
        .collect();
    until_in_line(&mut connection, CLIENTS).await;
    // From five seconds on the line is stopped for more than five at a time.
    let mut dearest = 0;
    for _ in 0..5 {
        let before = scripts(&mut connection).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        dearest = dearest.max(scripts(&mut connection).await - before);
    }
    assert!(dearest > 10, "nobody has stopped it: {dearest}");
    assert!(dearest < 300, "{dearest} scripts in three seconds");
    assert!(in_vain.iter().all(|waits| !waits.is_finished()));
}

/// However many they are, and whenever they came.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_for_more_than_there_ever_is_do_not_stop_the_others_in_turn() {
    let server = RedisServer::start().await;
    let small = semaphores(&server, 4, 2).await;
    let crowds: Vec<Crowd> = small
        .iter()
        .map(|client| Crowd::start(client, 8, 1, Duration::from_millis(5)))
        .collect();
    let mut in_vain = Vec::new();
    for _ in 0..10 {
        let large = semaphore(server.url()).await;
        in_vain.push(tokio::spawn(async move { large.acquire(5).await }));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Each has stopped the line once by then, if it may.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let served = || crowds.iter().map(Crowd::served).sum::<usize>();
    let mut standing = 0;
    for _ in 0..24 {
        let before = served();
        tokio::time::sleep(Duration::from_secs(1)).await;
        standing += usize::from(served() == before);
    }
    assert!(standing <= 16, "{standing} of 24 seconds");
    assert!(in_vain.iter().all(|large| !large.is_finished()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_far_away_has_its_turns_beside_one_that_is_near_and_busy() {
    for millis in [20, 60, 100] {
        let server = RedisServer::start().await;
        let proxy = Proxy::start(&server).await;
        let near = semaphores(&server, 1, 1).await.remove(0);
        proxy.set_round_trip(Duration::from_millis(millis));
        let far = semaphore(proxy.url()).await;
        let busy = Crowd::start(&near, 16, 1, Duration::from_millis(5));
        busy.until_served(16).await;
        let distant = Crowd::start(&far, 1, 1, Duration::from_millis(5));
        distant.until_served(2).await;
        busy.take();
        distant.take();
        distant.until_served(10).await;
        let share = busy.served() / 16;
        assert!(share < 150, "10 turns of {share}, {millis} ms away");
        busy.stop().await;
        distant.stop().await;
    }
}

/// How many clients stand in the line.
async fn in_line(connection: &mut MultiplexedConnection) -> usize {
    let line = format!("redisson_sc_turns:{{{NAME}}}");
    connection.zcard(line).await.expect("a line, or none")
}

async fn until_in_line(connection: &mut MultiplexedConnection, count: usize) {
    until(&format!("{count} stand in line"), LIMIT, async || {
        in_line(connection).await == count
    })
    .await;
}

/// The last one that a client serves by itself leaves the line when it gives back: the turn is that of the next client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whose_last_caller_goes_takes_nobody_s_turn() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    for shut_down in [false, true, false, true] {
        let clients = join_all((0..2).map(|_| connect(server.url()))).await;
        let first = clients[0].semaphore(NAME);
        first.try_set_permits(1).await.unwrap();
        first.acquire(1).await.unwrap();
        let own = tokio::spawn({
            let semaphore = first.clone();
            async move { semaphore.acquire(1).await }
        });
        until_subscribers(&mut connection, &channel(NAME), 1).await;
        let other = tokio::spawn({
            let semaphore = clients[1].semaphore(NAME);
            async move { semaphore.acquire(1).await }
        });
        until_in_line(&mut connection, 2).await;
        first.release(1).await.unwrap();
        served(own).await;
        first.release(1).await.unwrap();
        drop(first);
        if shut_down {
            clients[0].shutdown().await.unwrap();
        }
        served(other).await;
        clients[1].semaphore(NAME).release(1).await.unwrap();
        until_in_line(&mut connection, 0).await;
    }
}

/// A message is answered by a few of those who wait. Who believes that there are others, and is alone, comes all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_left_of_a_crowd_hears_a_release_by_redisson() {
    const CROWD: usize = 40;
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let clients = join_all((0..=CROWD).map(|_| connect(server.url()))).await;
    clients[0].semaphore(NAME).try_set_permits(1).await.unwrap();
    for _ in 0..4 {
        clients[0].semaphore(NAME).acquire(1).await.unwrap();
        let crowd: Vec<_> = clients[1..]
            .iter()
            .map(|client| {
                let semaphore = client.semaphore(NAME);
                tokio::spawn(async move { semaphore.acquire(1).await })
            })
            .collect();
        until_in_line(&mut connection, CROWD).await;
        let last = tokio::spawn({
            let semaphore = clients[0].semaphore(NAME);
            async move { semaphore.acquire(1).await }
        });
        until_in_line(&mut connection, CROWD + 1).await;
        crowd.iter().for_each(tokio::task::JoinHandle::abort);
        until_in_line(&mut connection, 1).await;
        release_as_redisson(&mut connection, NAME, 1).await;
        served(last).await;
        clients[0].semaphore(NAME).release(1).await.unwrap();
    }
}

/// Who always finds enough never waits, and so does not listen: whoever wants all that there is, and is alone in that, stands in line all the
/// same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_request_is_served_beside_those_who_never_wait() {
    let server = RedisServer::start().await;
    let clients = semaphores(&server, 8, 2).await;
    // They never go all at once.
    let holds = [61, 67, 71, 73, 79, 83, 89].map(Duration::from_millis);
    let crowds = holds.map(|hold| Crowd::start(&clients[0], 1, 1, hold));
    until("all of them are at work", LIMIT, async || {
        crowds.iter().all(|crowd| crowd.served() > 1)
    })
    .await;
    let large = tokio::spawn({
        let semaphore = clients[1].clone();
        async move { semaphore.acquire(8).await }
    });
    served(large).await;
    clients[1].release(8).await.unwrap();
    for crowd in crowds {
        crowd.stop().await;
    }
}
