//! Processes in one queue, of which one freezes and one dies: the others lose what it holds and nothing else.

use std::path::Path;
use std::time::Duration;

use crate::support::crowd::Crowd;
use crate::support::keeper::{Keeper, test_name};
use crate::support::server::RedisServer;
use crate::support::waiters::until;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::Client;

const NAME: &str = "processes";
const URL: &str = "QUEUE_PEER_URL";
const PEER: &str = "QUEUE_PEER_NAME";
const CALLERS: usize = 16;
const PERMITS: i64 = 4;
const HOLD: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(60);

/// What the other processes do: callers at work until they are killed. How many have been served stands in the
/// hash `served`.
#[tokio::test]
#[ignore = "a process of its own, started by the tests of this file"]
async fn peer() {
    let url = std::env::var(URL).expect("started by a test");
    let name = std::env::var(PEER).expect("started by a test");
    let semaphore = Client::connect(&*url)
        .await
        .expect("the server runs")
        .semaphore(NAME);
    let crowd = Crowd::start(&semaphore, CALLERS, 1, HOLD);
    // It is frozen for a while, perhaps in the middle of a question.
    let patient = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let counter = redis::Client::open(url).expect("a URL");
    let mut counter = counter
        .get_multiplexed_async_connection_with_config(&patient)
        .await
        .expect("the server runs");
    loop {
        crowd.until_served(1).await;
        let served = crowd.served();
        let () = redis::cmd("HSET")
            .arg("served")
            .arg(&name)
            .arg(served)
            .query_async(&mut counter)
            .await
            .unwrap();
    }
}

fn start(server: &RedisServer, name: &str) -> Keeper {
    let directory = server.directory().join(name);
    std::fs::create_dir(&directory).expect("a new directory can be made");
    let program = std::env::current_exe().expect("this program");
    let program = program.to_str().expect("a path in UTF-8");
    let peer = test_name(module_path!(), "peer");
    let (url, name) = (format!("{URL}={}", server.url()), format!("{PEER}={name}"));
    let arguments = [
        &*url,
        &*name,
        program,
        "--exact",
        &peer,
        "--ignored",
        "--nocapture",
    ];
    Keeper::spawn(Path::new(&directory), "env", &arguments)
}

async fn served(connection: &mut MultiplexedConnection, name: &str) -> i64 {
    let count: Option<i64> = redis::cmd("HGET")
        .arg(&["served", name])
        .query_async(connection)
        .await
        .unwrap();
    count.unwrap_or(0)
}

/// Waits until each of these has been served so often from now on; how often each was, then.
async fn go_on(connection: &mut MultiplexedConnection, names: &[&str], count: i64) -> Vec<i64> {
    let mut before = Vec::new();
    for name in names {
        before.push(served(connection, name).await);
    }
    let mut now = Vec::new();
    until(&format!("{names:?} are served"), PATIENCE, async || {
        now.clear();
        for (name, before) in names.iter().zip(&before) {
            now.push(served(connection, name).await - before);
        }
        now.iter().all(|served| *served >= count)
    })
    .await;
    now
}

fn assert_alike(shares: &[i64]) {
    let (min, max) = (shares.iter().min(), shares.iter().max());
    assert!(max < min.map(|min| min * 3).as_ref(), "{shares:?}");
}

async fn replace(connection: &mut MultiplexedConnection) {
    let channel = format!("redisson_sc:{{{NAME}}}");
    let () = redis::pipe()
        .cmd("INCRBY")
        .arg(NAME)
        .arg(PERMITS)
        .cmd("PUBLISH")
        .arg(channel)
        .arg(PERMITS)
        .query_async(connection)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_frozen_and_a_killed_process_cost_what_they_hold() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let () = redis::cmd("SET")
        .arg(NAME)
        .arg(PERMITS)
        .query_async(&mut connection)
        .await
        .unwrap();
    let names = ["a", "b", "c", "d"];
    let mut processes: Vec<Keeper> = names.iter().map(|name| start(&server, name)).collect();
    assert_alike(&go_on(&mut connection, &names, 100).await);

    // What a frozen or dead process holds is missing, all permits perhaps: they are replaced.
    processes[3].signal("STOP");
    replace(&mut connection).await;
    assert_alike(&go_on(&mut connection, &names[..3], 100).await);

    processes[2].signal("KILL");
    replace(&mut connection).await;
    assert_alike(&go_on(&mut connection, &names[..2], 100).await);

    // Thawed, it takes part again.
    processes[3].signal("CONT");
    let alive = ["a", "b", "d"];
    go_on(&mut connection, &alive, 50).await;
    assert_alike(&go_on(&mut connection, &alive, 100).await);
}
