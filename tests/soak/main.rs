//! Everything goes wrong for a while, and no permit is lost or doubled and nobody hangs: `make soak`.
//!
//! Three Rust processes and a Redisson JVM share semaphores on a private server. The driver kills
//! connections, restarts, crashes, pauses and freezes the server, cuts, loses and delays traffic through a
//! proxy, and kills Rust processes; the processes drop futures at any point. `SOAK=10m` says for how long.
//!
//! How the permits are accounted for: each process tells each step before and after it ([`journal`]), so it is known
//! what it holds ([`ledger`]): exactly, once it has ended in good order, and within bounds when it was
//! killed, as a call may have been under way. The server tells what every client has taken and not given
//! back: its append-only file holds each change together with its author ([`witness`]). Both must agree for
//! each process. The driver puts back what killed processes took along ([`restorer`]), so at the end the counters
//! must be what they were at the beginning. From one semaphore permits are taken by watched guards only, and another one's have
//! ids and leases ([`leased`]): nobody puts those of the killed back, and the counters must be what they were all the same; with those
//! that are held the latter's counter makes the same sum behind every single change. Redisson's own losses are seen by the same
//! file, counted apart and put back ([`java`]).
//!
//! With the argument `compare` it also does to Redisson alone what it does to this crate ([`comparison`]).

mod books;
mod caller;
mod comparison;
mod crew;
mod faults;
mod java;
mod journal;
mod leased;
mod ledger;
mod report;
mod restorer;
#[path = "../support/mod.rs"]
mod support;
mod watch;
mod witness;
mod worker;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use redisson_semaphore::Client;
use support::proxy::Proxy;
use support::server::RedisServer;
use tokio::sync::{Mutex, watch as signal};
use tokio::time::{Instant, sleep};

use books::Books;
use crew::Crew;
use faults::{Deck, Done, USER, Victims};
use java::Java;
use report::{Outcome, View};
use restorer::Restorer;
use watch::Watch;
use witness::Witness;

type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Error>;

/// Nearly all callers and the JVM work with this one.
pub(crate) const BUSY: &str = "soak-busy";
pub(crate) const BUSY_LIMIT: u32 = 8;
/// One permit goes round these: a caller of each process takes it from one and gives it to the next. So each
/// of them is woken by one message, and nothing else would wake it by chance.
pub(crate) const RING: [&str; 3] = ["soak-ring-0", "soak-ring-1", "soak-ring-2"];
pub(crate) const RING_LIMIT: u32 = 1;
/// Some callers of each process take guards from this one, whose permits come back by themselves when it is killed.
pub(crate) const WATCHED: &str = "soak-watched";
pub(crate) const WATCHED_LIMIT: u32 = 6;
/// Of this one's permits, which have ids and leases, some callers of each process and of the JVM take some.
pub(crate) const LEASED: &str = "soak-leased";
pub(crate) const LEASED_LIMIT: u32 = 6;
/// Longer than any fault lasts.
pub(crate) const WATCHDOG_TIMEOUT: Duration = Duration::from_secs(8);
/// The ring and the other semaphores; what they hold together stays the same.
pub(crate) const GROUPS: [(&[&str], u32); 4] = [
    (&[BUSY], BUSY_LIMIT),
    (&RING, RING_LIMIT),
    (&[WATCHED], WATCHED_LIMIT),
    (&[LEASED], LEASED_LIMIT),
];
/// What one caller asks for at the most.
pub(crate) const MOST_PERMITS: u32 = 2;
/// In each process: the first one is in the ring, the last ones take watched guards, and those before them permits with ids.
pub(crate) const CALLERS: usize = 16;
pub(crate) const FIRST_WATCHED: usize = CALLERS - 3;
pub(crate) const FIRST_LEASED: usize = FIRST_WATCHED - 3;
/// What comes back by itself when a process is killed.
pub(crate) const COMES_BACK: [&[&str]; 2] = [&[WATCHED], &[LEASED]];

const PAUSE_MILLIS: std::ops::Range<u64> = 150..600;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be made");
    // Of what `cargo test` passes on, only a filter and the question for the tests' names matter.
    let listed = arguments.iter().any(|argument| argument == "--list");
    let words: Vec<&str> = arguments
        .iter()
        .map(String::as_str)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let outcome = runtime.block_on(async {
        match words.as_slice() {
            [worker::ARGUMENT, url, place] => worker::work(url, place.parse()?).await,
            ["compare"] => {
                run().await?;
                comparison::run().await
            }
            _ if listed => Ok(()),
            [filter, ..] if !"soak".contains(filter) => Ok(()),
            _ => run().await,
        }
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("soak: {error}");
            ExitCode::FAILURE
        }
    }
}

/// From which semaphore a caller of a process takes permits that has this place in the ring.
pub(crate) fn name_for(caller: usize, place: usize) -> &'static str {
    match caller {
        0 => RING[place],
        FIRST_WATCHED.. => WATCHED,
        FIRST_LEASED.. => LEASED,
        _ => BUSY,
    }
}

/// `90`, `90s` or `10m`.
fn duration() -> Result<Duration> {
    let text = std::env::var("SOAK").unwrap_or_else(|_| "30s".to_owned());
    let (number, unit) = match text.strip_suffix('m') {
        Some(minutes) => (minutes, 60),
        None => (text.strip_suffix('s').unwrap_or(&text), 1),
    };
    let number: u64 = number
        .parse()
        .map_err(|_| format!("SOAK={text} is no time: 30s or 10m"))?;
    Ok(Duration::from_secs(number * unit))
}

async fn run() -> Result<()> {
    let duration = duration()?;
    let server = RedisServer::options()
        .appendonly()
        // The file is read from its beginning to its end.
        .setting("auto-aof-rewrite-percentage", "0")
        .user(&format!("{USER} on >{USER} ~* &* +@all"))
        .start()
        .await;
    let mut witness = Witness::of(server.directory());
    let proxy = Proxy::start(&server).await;
    let books = Arc::new(Books::default());

    let client = Client::connect(server.url()).await?;
    for (names, limit) in GROUPS {
        client.semaphore(names[0]).try_set_permits(limit).await?;
    }
    witness.update()?;
    // From its first guard on it sees to it that what the killed held comes back.
    let watched = client.semaphore(WATCHED).watched();
    watched.permit(1).await?.release().await?;
    let restorer = Arc::new(Mutex::new(Restorer::new(witness, &books, &client)));
    let (watch, seen) = Watch::new(server.client(), &books);
    let watching = tokio::spawn(watch.look()).abort_handle();
    let calm = Arc::<Mutex<()>>::default();
    let (stop_java, stopping) = signal::channel(false);
    let java = Java {
        url: server.url(),
        books: Arc::clone(&books),
        restorer: Arc::clone(&restorer),
        calm: Arc::clone(&calm),
    };
    let java = tokio::spawn(java.work(stopping));
    let direct = server.url_as(USER, USER);
    let through_proxy = proxy.url_as(USER, USER);
    let crew = Crew::start(&books, vec![direct, through_proxy.clone(), through_proxy])?;

    let mut victims = Victims {
        server,
        proxy,
        crew,
    };
    let mut done = Done::default();
    let mut deck = Deck::default();
    let mut view = View::new(duration);
    let end = Instant::now() + duration;
    while Instant::now() < end {
        sleep(Duration::from_millis(fastrand::u64(PAUSE_MILLIS))).await;
        let fault = deck.next();
        {
            let _calm = calm.lock().await;
            victims.suffer(fault, &books, &mut done).await?;
        }
        restorer.lock().await.restore_killed().await?;
        books.settle(false);
        view.show(
            fault,
            &done,
            &books.open(),
            &seen.lock().expect("no panic under this lock"),
        );
    }
    victims.proxy.clear_fates();
    victims.proxy.let_go();
    let stuck = books.until_the_ring_has_turned().await;

    stop_java.send_replace(true);
    let mut java = java.await??;
    let hung = victims.crew.stop().await?;
    watching.abort();
    let end = Instant::now() + 3 * WATCHDOG_TIMEOUT;
    let leased = client.permit_expirable_semaphore(LEASED);
    while (watched.available_permits().await? != i64::from(WATCHED_LIMIT)
        || leased.available_permits().await? != i64::from(LEASED_LIMIT))
        && Instant::now() < end
    {
        sleep(Duration::from_millis(20)).await;
    }
    let mut restorer = restorer.lock().await;
    restorer.restore_killed().await?;
    java.lost += restorer.restore_java().await?;
    client.shutdown().await?;
    books.settle(true);
    let mut counters = [0; GROUPS.len()];
    let mut connection = victims.server.connection().await;
    for (counter, (names, _)) in counters.iter_mut().zip(GROUPS) {
        let read: Vec<Option<i64>> = redis::cmd("MGET")
            .arg(names)
            .query_async(&mut connection)
            .await?;
        *counter = read.into_iter().flatten().sum();
    }
    let outcome = Outcome {
        duration,
        done,
        java,
        hung,
        stuck,
        counters,
        seen: seen.lock().expect("no panic under this lock").clone(),
    };
    outcome.report(&books.open(), restorer.witness()?)
}
