//! The same run of killed connections for this crate and for Redisson, side by side.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use redisson_semaphore::Client;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::Result;
use crate::faults::USER;
use crate::java::REDISSON;
use crate::support::peer::JavaPeer;
use crate::support::server::RedisServer;

const NAME: &str = "comparison";
const PERMITS: u32 = 100;
const CALLERS: u64 = 32;
const KILLS: u32 = 40;
const PACE: Duration = Duration::from_millis(300);
const HOLD_MILLIS: (u64, u64) = (1, 5);
/// Callers that have not finished their turn by then wait for ever.
const PATIENCE: Duration = Duration::from_secs(20);

/// What became of one contestant.
struct Score {
    killed: u64,
    turns: u64,
    errors: u64,
    hung: usize,
    left: i64,
}

pub(crate) async fn run() -> Result<()> {
    println!(
        "comparison: {CALLERS} callers, {PERMITS} permits, all connections killed {KILLS} times"
    );
    let ours = this_crate().await?;
    let java = redisson().await?;
    println!("\n| | this crate | Redisson {REDISSON} |\n|---|---|---|");
    let row = |what: &str, of: fn(&Score) -> i64| {
        println!("| {what} | {} | {} |", of(&ours), of(&java));
    };
    row("connections killed", |score| score.killed as i64);
    row("acquisitions", |score| score.turns as i64);
    row("errors seen by callers", |score| score.errors as i64);
    row("permits gone for good", |score| {
        i64::from(PERMITS) - score.left
    });
    row("callers that hang", |score| score.hung as i64);
    println!();
    if ours.errors > 0 || ours.hung > 0 || ours.left != i64::from(PERMITS) {
        return Err("this crate has lost something".into());
    }
    Ok(())
}

async fn start() -> Result<RedisServer> {
    let server = RedisServer::options()
        .user(&format!("{USER} on >{USER} ~* &* +@all"))
        .start()
        .await;
    let client = Client::connect(server.url()).await?;
    client.semaphore(NAME).try_set_permits(PERMITS).await?;
    Ok(server)
}

async fn kill(server: &RedisServer) -> u64 {
    server.disconnect(USER).await as u64
}

async fn left(server: &RedisServer) -> Result<i64> {
    let client = Client::connect(server.url()).await?;
    Ok(client.semaphore(NAME).available_permits().await?)
}

async fn this_crate() -> Result<Score> {
    let server = start().await?;
    let client = Client::connect(server.url_as(USER, USER)).await?;
    let counters = Arc::new((AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0)));
    let tasks: Vec<_> = (0..CALLERS)
        .map(|_| {
            let semaphore = client.semaphore(NAME);
            let counters = Arc::clone(&counters);
            tokio::spawn(async move {
                let (stopping, turns, errors) = &*counters;
                while !stopping.load(Ordering::SeqCst) {
                    if semaphore.acquire(1).await.is_err() {
                        errors.fetch_add(1, Ordering::SeqCst);
                        continue;
                    }
                    turns.fetch_add(1, Ordering::SeqCst);
                    let hold = fastrand::u64(HOLD_MILLIS.0..=HOLD_MILLIS.1);
                    sleep(Duration::from_millis(hold)).await;
                    if semaphore.release(1).await.is_err() {
                        errors.fetch_add(1, Ordering::SeqCst);
                    }
                }
            })
        })
        .collect();
    let mut killed = 0;
    for _ in 0..KILLS {
        sleep(PACE).await;
        killed += kill(&server).await;
    }
    let (stopping, turns, errors) = &*counters;
    stopping.store(true, Ordering::SeqCst);
    let mut hung = 0;
    let end = Instant::now() + PATIENCE;
    for task in tasks {
        hung += usize::from(tokio::time::timeout_at(end, task).await.is_err());
    }
    client.shutdown().await?;
    Ok(Score {
        killed,
        turns: turns.load(Ordering::SeqCst),
        errors: errors.load(Ordering::SeqCst),
        hung,
        left: left(&server).await?,
    })
}

async fn redisson() -> Result<Score> {
    let server = start().await?;
    let mut peer = JavaPeer::start(REDISSON, &server.url_as(USER, USER)).await;
    let work = json!({
        "name": NAME, "threads": CALLERS, "permits": 1, "keepOn": true,
        "holdMillisMin": HOLD_MILLIS.0, "holdMillisMax": HOLD_MILLIS.1,
    });
    peer.call("workers", work).await?;
    let mut told = Told::default();
    let mut killed = 0;
    for _ in 0..KILLS {
        let next = Instant::now() + PACE;
        while let Ok(event) = tokio::time::timeout_at(next, peer.event()).await {
            told.note(&event.ok_or("the JVM has ended")?);
        }
        killed += kill(&server).await;
    }
    let mut stopped = peer.begin("stopWorkers", json!({}));
    let end = Instant::now() + PATIENCE;
    let finished = loop {
        tokio::select! {
            event = peer.event() => told.note(&event.ok_or("the JVM has ended")?),
            _ = &mut stopped => break true,
            () = sleep_until(end) => break false,
        }
    };
    while let Ok(Some(event)) = timeout(Duration::ZERO, peer.event()).await {
        told.note(&event);
    }
    peer.kill().await;
    let waiting = told.last.values().filter(|word| *word == "waiting");
    Ok(Score {
        killed,
        turns: told.turns,
        errors: told.errors,
        hung: if finished { 0 } else { waiting.count() },
        left: left(&server).await?,
    })
}

/// What the threads of the JVM have told.
#[derive(Default)]
struct Told {
    turns: u64,
    errors: u64,
    last: HashMap<u64, String>,
}

impl Told {
    fn note(&mut self, event: &Value) {
        let (Some(word), Some(worker)) = (event["event"].as_str(), event["worker"].as_u64()) else {
            return;
        };
        self.turns += u64::from(word == "held");
        self.errors += u64::from(word == "failed");
        self.last.insert(worker, word.to_owned());
    }
}
