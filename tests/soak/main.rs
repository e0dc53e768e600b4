//! Everything goes wrong for a while, and no permit is lost or doubled and nobody hangs: `make soak`.
//!
//! Three Rust processes share semaphores on a private server. The driver kills connections, restarts, crashes, pauses and
//! freezes the server, cuts, loses and delays traffic through a proxy ([`faults`]), and kills one of the processes again and
//! again ([`crew`]); their callers drop futures at any point ([`worker`]). `SOAK=10m` says for how long.
//!
//! Each process tells what its callers hold and what they wait for ([`books`]). So it is known that no more is held at any
//! moment than there is, and that nobody waits for long beside free permits ([`watch`]). A killed process takes along
//! nothing but guards and permits with leases, which come back by themselves. At the end all permits must be back, to the last one.

mod books;
mod crew;
mod faults;
#[path = "../support/mod.rs"]
mod support;
mod watch;
mod worker;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use support::proxy::Proxy;
use support::server::RedisServer;
use tokio::time::{Instant, sleep};

use books::Books;
use crew::Crew;
use faults::{Deck, USER, Victims};
use watch::Watch;

type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Error>;

/// Most callers work with this one.
const BUSY: &str = "soak-busy";
/// One permit goes round these: a caller of a process takes it from one and gives it to the other. So each of them is woken by
/// one message, and nothing else would wake it by chance.
const RING: [&str; 2] = ["soak-ring-0", "soak-ring-1"];
/// Of this one callers take guards, whose permits come back by themselves when their process is killed.
const WATCHED: &str = "soak-watched";
/// The permits of this one have ids and leases.
const LEASED: &str = "soak-leased";

/// The ring and the other semaphores; what they hold together stays the same.
const GROUPS: [(&[&str], i64); 4] = [(&[BUSY], 8), (&RING, 1), (&[WATCHED], 6), (&[LEASED], 6)];
/// The most permits that one caller asks for; of the ring it is one.
const MOST_PERMITS: u32 = 2;
const CALLERS: usize = 16;
/// The process in this place is killed now and then.
const KILLED: usize = 2;
/// Longer than any fault lasts.
const WATCHDOG_TIMEOUT: Duration = Duration::from_secs(8);
const PAUSE_MILLIS: std::ops::Range<u64> = 150..600;
const PROGRESS: Duration = Duration::from_secs(10);

/// The semaphore of a caller in a process.
fn name_for(place: usize, caller: usize) -> &'static str {
    match (place, caller) {
        (KILLED, _) if caller.is_multiple_of(2) => WATCHED,
        (KILLED, _) => LEASED,
        (_, 0) => RING[place],
        (_, 1..10) => BUSY,
        (_, 10..13) => LEASED,
        _ => WATCHED,
    }
}

/// The group of a semaphore.
fn group_of(name: &str) -> usize {
    let all = GROUPS.iter();
    let mut all = all.map(|(names, _)| names.contains(&name));
    all.position(|is_it| is_it).expect("one of them")
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be made");
    // Of what `cargo test` passes on, only a filter and the question for the tests' names matter.
    let listed = arguments.iter().any(|argument| argument == "--list");
    let words = arguments.iter().map(String::as_str);
    let words: Vec<&str> = words.filter(|word| !word.starts_with('-')).collect();
    let outcome = runtime.block_on(async {
        match words.as_slice() {
            [worker::ARGUMENT, url, place] => worker::work(url, place.parse()?).await,
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
        .user(&format!("{USER} on >{USER} ~* &* +@all"))
        .start()
        .await;
    let proxy = Proxy::start(&server).await;
    let mut connection = server.connection().await;
    for (names, limit) in GROUPS {
        let () = redis::cmd("SET")
            .arg(names[0])
            .arg(limit)
            .query_async(&mut connection)
            .await?;
    }
    let books = Arc::new(Books::default());
    let watch = Watch::start(server.client(), &books);
    let direct = server.url_as(USER, USER);
    let through_proxy = proxy.url_as(USER, USER);
    let crew = Crew::start(&books, vec![direct, through_proxy.clone(), through_proxy])?;

    println!("soak: {} s of faults", duration.as_secs());
    let mut victims = Victims::new(server, proxy, crew);
    let mut deck = Deck::default();
    let (began, mut shown) = (Instant::now(), Instant::now());
    while began.elapsed() < duration {
        sleep(Duration::from_millis(fastrand::u64(PAUSE_MILLIS))).await;
        victims.suffer(deck.next(), &books).await?;
        if shown.elapsed() >= PROGRESS {
            shown = Instant::now();
            let seconds = began.elapsed().as_secs();
            println!("{seconds:>4} s  {}", books.open().summary());
        }
    }
    victims.proxy.clear_fates();
    victims.proxy.let_go();
    let turns = books.until_the_ring_has_turned().await;
    let hung = victims.crew.stop().await?;
    let seen = watch.end();
    let counters = until_all_is_back(&victims.server).await?;

    println!("\n| fault | times |\n|---|---|");
    for (fault, times) in &victims.done {
        println!("| {} | {times} |", fault.name());
    }
    let books = books.open();
    let peaks = books.peaks();
    println!("\n{}", books.summary());
    println!("connections killed: {}", victims.connections);
    println!("most held at one moment, of {GROUPS:?}: {peaks:?}; at the end {counters:?}");
    println!("longest wait while permits were free: {:?}", seen.longest);
    for error in books.errors.iter().take(10) {
        println!("{error}");
    }
    let limits = GROUPS.map(|(_, limit)| limit);
    let all = [
        (counters != limits, "permits are lost or doubled"),
        (
            peaks.iter().zip(limits).any(|(peak, limit)| *peak > limit),
            "more was held than there is",
        ),
        (!books.errors.is_empty(), "callers saw errors"),
        (books.died > 0, "a process died"),
        (hung > 0, "a process did not end"),
        (seen.hung > 0, "waiters hung"),
        (!turns, "the ring does not turn any more"),
        (books.turns == 0, "nothing was acquired"),
    ];
    let wrong = all.into_iter().filter(|(is_so, _)| *is_so);
    let wrong: Vec<&str> = wrong.map(|(_, what)| what).collect();
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("; ").into()),
    }
}

/// The counters of the groups when the leases of killed processes are over, after three leases at the latest. A client has to look for that.
async fn until_all_is_back(server: &RedisServer) -> Result<[i64; GROUPS.len()]> {
    let client = redisson_semaphore::Client::connect(server.url()).await?;
    let watched = client.semaphore(WATCHED).watched();
    let leased = client.permit_expirable_semaphore(LEASED);
    let end = Instant::now() + 3 * WATCHDOG_TIMEOUT;
    loop {
        if let Some(guard) = watched.try_permit(1).await? {
            guard.release().await?;
        }
        leased.available_permits().await?;
        let mut counters = [0; GROUPS.len()];
        for (counter, (names, _)) in counters.iter_mut().zip(GROUPS) {
            for name in names {
                *counter += client.semaphore(name).available_permits().await?;
            }
        }
        if counters == GROUPS.map(|(_, limit)| limit) || Instant::now() > end {
            client.shutdown().await?;
            return Ok(counters);
        }
        sleep(Duration::from_millis(50)).await;
    }
}
