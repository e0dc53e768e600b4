//! This crate over a cluster, beside the cluster client of the `redis` crate with one script a call; and by TLS, beside
//! itself without: `make bench-network`.
//!
//! All in this one process, with private servers. The two of a row are measured in turns, a second each, so that their ratio is of one
//! moment.

#[allow(dead_code)]
#[path = "../../tests/certificates/mod.rs"]
mod certificates;
#[path = "../../tests/support/mod.rs"]
mod support;

use std::cell::Cell;
use std::error::Error;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use certificates::Authority;
use futures::future::try_join_all;
use redis::Script;
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redisson_semaphore::{Client, RSemaphore, Tls};
use support::cluster::Cluster;
use support::server::RedisServer;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const SEMAPHORES: usize = 64;
const CALLERS: usize = 256;
const ROUNDS: usize = 8;
const ROUND: Duration = Duration::from_secs(1);
const AMPLE: u32 = 1_000_000;

#[tokio::main]
async fn main() -> Result<()> {
    cluster().await?;
    tls().await
}

/// 3 masters, 64 semaphores, 256 callers.
async fn cluster() -> Result<()> {
    let cluster = Cluster::start().await;
    let client = Client::connect(cluster.url()).await?;
    let names: Vec<String> = (0..SEMAPHORES)
        .map(|number| format!("bench-{number}"))
        .collect();
    let ours: Vec<RSemaphore> = names.iter().map(|name| client.semaphore(name)).collect();
    for semaphore in &ours {
        semaphore.try_set_permits(AMPLE).await?;
    }
    let nodes: Vec<String> = cluster.servers.iter().map(RedisServer::url).collect();
    let plain = ClusterClientBuilder::new(nodes)
        .response_timeout(Duration::from_secs(30))
        .build()?
        .get_async_connection()
        .await?;
    let plain: Vec<Plain> = (names.iter())
        .map(|name| Plain {
            connection: plain.clone(),
            name: name.clone(),
            channel: format!("redisson_sc:{{{name}}}"),
            acquire: Script::new(ACQUIRE),
            release: Script::new(RELEASE),
        })
        .collect();
    let (ours, plain) = in_turns(
        || pairs(&ours, async |semaphore| pair(semaphore).await),
        || pairs(&plain, async |plain| plain.pair().await),
    )
    .await?;
    println!("3 masters, {SEMAPHORES} semaphores, {CALLERS} callers, pairs/s:");
    println!(
        "  this crate {ours:.0}, the cluster client of redis-rs {plain:.0}: {:.2} x",
        ours / plain
    );
    Ok(())
}

/// One semaphore, 64, and one for each caller: then every call travels.
async fn tls() -> Result<()> {
    let authority = Authority::new();
    let certificate = authority.certificate("127.0.0.1");
    let server = RedisServer::options()
        .tls(
            &authority.file(),
            &certificate.chain_file,
            &certificate.key_file,
            false,
        )
        .start()
        .await;
    let plain = Client::connect(server.url()).await?;
    let secured = Client::builder(format!("rediss://127.0.0.1:{}", server.tls_port()))
        .tls(Tls::new().trust_only(authority.pem()))
        .connect()
        .await?;
    for semaphores in [1, SEMAPHORES, CALLERS] {
        let make = |client: &Client| -> Vec<RSemaphore> {
            let all = 0..semaphores;
            all.map(|number| client.semaphore(&format!("bench-{number}")))
                .collect()
        };
        let (plain, secured) = (make(&plain), make(&secured));
        for semaphore in &plain {
            semaphore.try_set_permits(AMPLE).await?;
        }
        let (with_cpu, without_cpu) = (Load::default(), Load::default());
        let (with, without) = in_turns(
            || with_cpu.of(&server, &secured),
            || without_cpu.of(&server, &plain),
        )
        .await?;
        println!("semaphores: {semaphores}, {CALLERS} callers, pairs/s:");
        println!(
            "  by TLS {with:.0}, without {without:.0}: {:.0} % less",
            100.0 * (1.0 - with / without)
        );
        println!(
            "  the server's CPU for a pair: {:.2} µs by TLS, {:.2} without",
            with_cpu.of_pair(),
            without_cpu.of_pair()
        );
    }
    Ok(())
}

/// The work of a server for pairs of calls. Other than their rate, it hardly depends on what else the machine does.
#[derive(Default)]
struct Load {
    pairs: Cell<f64>,
    micros: Cell<f64>,
}

impl Load {
    async fn of(&self, server: &RedisServer, semaphores: &[RSemaphore]) -> Result<f64> {
        let (before, began) = (cpu(server).await?, Instant::now());
        let rate = pairs(semaphores, async |semaphore| pair(semaphore).await).await?;
        let done = rate * began.elapsed().as_secs_f64();
        self.pairs.set(self.pairs.get() + done);
        self.micros
            .set(self.micros.get() + cpu(server).await? - before);
        Ok(rate)
    }

    fn of_pair(&self) -> f64 {
        self.micros.get() / self.pairs.get()
    }
}

/// In microseconds.
async fn cpu(server: &RedisServer) -> Result<f64> {
    let mut info = redis::cmd("INFO");
    let connection = &mut server.connection().await;
    let info: String = info.arg("cpu").query_async(connection).await?;
    let of = |name: &str| -> f64 {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|seconds| seconds.parse().ok()).unwrap_or(0.0)
    };
    Ok((of("used_cpu_sys:") + of("used_cpu_user:")) * 1e6)
}

async fn pair(semaphore: &RSemaphore) -> Result<()> {
    semaphore.acquire(1).await?;
    Ok(semaphore.release(1).await?)
}

/// One script a call, as one writes it with the redis crate.
struct Plain {
    connection: ClusterConnection,
    name: String,
    channel: String,
    acquire: Script,
    release: Script,
}

const ACQUIRE: &str = "local free = redis.call('get', KEYS[1])
    if free and tonumber(free) >= tonumber(ARGV[1]) then
        redis.call('decrby', KEYS[1], ARGV[1])
        return 1
    end
    return 0";

const RELEASE: &str = "redis.call('spublish', KEYS[2], redis.call('incrby', KEYS[1], ARGV[1]))";

impl Plain {
    async fn pair(&self) -> Result<()> {
        let connection = &mut self.connection.clone();
        let mut acquire = self.acquire.key(&self.name);
        let taken: bool = acquire.arg(1).invoke_async(connection).await?;
        assert!(taken, "there are enough");
        let mut release = self.release.key(&self.name);
        let () = release
            .key(&self.channel)
            .arg(1)
            .invoke_async(connection)
            .await?;
        Ok(())
    }
}

/// The medians of both, measured in turns.
async fn in_turns<A: Future<Output = Result<f64>>, B: Future<Output = Result<f64>>>(
    mut one: impl FnMut() -> A,
    mut two: impl FnMut() -> B,
) -> Result<(f64, f64)> {
    let (mut ones, mut twos) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (first, second) = (one().await?, two().await?);
        // The first one warms up.
        if round > 0 {
            ones.push(first);
            twos.push(second);
        }
    }
    let median = |mut all: Vec<f64>| {
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    Ok((median(ones), median(twos)))
}

/// Callers in a loop, each at one of the semaphores: pairs in a second.
async fn pairs<S>(semaphores: &[S], pair: impl AsyncFn(&S) -> Result<()>) -> Result<f64> {
    let done = AtomicU64::new(0);
    let began = Instant::now();
    let callers = (0..CALLERS).map(async |caller| {
        while began.elapsed() < ROUND {
            pair(&semaphores[caller % semaphores.len()]).await?;
            done.fetch_add(1, Ordering::Relaxed);
        }
        Ok::<_, Box<dyn Error + Send + Sync>>(())
    });
    try_join_all(callers).await?;
    Ok(done.into_inner() as f64 / began.elapsed().as_secs_f64())
}
