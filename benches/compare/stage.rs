//! The private server and the contestants' processes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};

use crate::Result;
use crate::contestant::{Contestant, Make};
use crate::meter::{self, field, info};
use crate::program::{Program, directory};
use crate::report::machine::Machine;
use crate::settings::Settings;
use crate::support::proxy::Proxy;
use crate::support::server::RedisServer;

const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Stage {
    pub(crate) settings: Settings,
    pub(crate) redis: MultiplexedConnection,
    programs: HashMap<Make, Vec<Arc<Program>>>,
    started: usize,
    server: RedisServer,
    /// To which all processes are pinned.
    core: Option<usize>,
}

impl Stage {
    /// Starts the server; processes are started when they are needed.
    pub(crate) async fn open(settings: Settings) -> Result<Stage> {
        Stage::open_on(settings, None).await
    }

    /// The same with the server and all processes on one core; this process stays free.
    pub(crate) async fn open_pinned(settings: Settings) -> Result<Stage> {
        let stage = Stage::open_on(settings, Some(0)).await?;
        let mut redis = stage.redis.clone();
        let server = info(&mut redis, "server").await?;
        let pid = field(&server, "process_id").ok_or("no process of the server")?;
        let mut taskset = std::process::Command::new("taskset");
        let pinned = taskset.args(["-a", "-c", "-p", "0", pid]).output()?;
        match pinned.status.success() {
            true => Ok(stage),
            false => Err("taskset does not pin the server".into()),
        }
    }

    async fn open_on(settings: Settings, core: Option<usize>) -> Result<Stage> {
        std::fs::create_dir_all(directory())?;
        let server = RedisServer::start().await;
        let mut redis = server.connection().await;
        // The server may be given more to do than it can.
        redis.set_response_timeout(PATIENCE);
        Ok(Stage {
            settings,
            redis,
            programs: HashMap::new(),
            started: 0,
            server,
            core,
        })
    }

    pub(crate) async fn machine(&mut self) -> Result<Machine> {
        Machine::look(&mut self.redis, self.settings.name).await
    }

    /// The first `count` processes of a make, started and warmed up if they are not there yet.
    pub(crate) async fn programs(&mut self, make: Make, count: usize) -> Result<Vec<Arc<Program>>> {
        let missing = count.saturating_sub(self.programs.get(&make).map_or(0, Vec::len));
        if missing > 0 {
            let mut fresh = Vec::new();
            for _ in 0..missing {
                fresh.push(self.start(make).await?);
            }
            if make == Make::Redisson {
                self.warm_up(&fresh).await?;
            }
            self.programs.entry(make).or_default().extend(fresh);
        }
        Ok(self.programs[&make][..count].to_vec())
    }

    /// A process of its own: for measuring memory, or to be killed.
    pub(crate) async fn start(&mut self, make: Make) -> Result<Arc<Program>> {
        self.start_clients(make, 1).await
    }

    /// The same with so many clients in the process.
    pub(crate) async fn start_clients(&mut self, make: Make, clients: u64) -> Result<Arc<Program>> {
        let url = self.server.url();
        self.start_at(make, &url, clients).await
    }

    /// A process of its own whose way to the server can be interrupted.
    pub(crate) async fn start_behind_proxy(
        &mut self,
        make: Make,
    ) -> Result<(Arc<Program>, Option<Proxy>)> {
        let proxy = Proxy::start(&self.server).await;
        let program = self.start_at(make, &proxy.url(), 1).await?;
        Ok((program, Some(proxy)))
    }

    async fn start_at(&mut self, make: Make, url: &str, clients: u64) -> Result<Arc<Program>> {
        self.started += 1;
        let program = Program::start(make, self.started, url, clients, self.core).await?;
        Ok(Arc::new(program))
    }

    /// Sets the permits of a semaphore.
    pub(crate) async fn set(&mut self, name: &str, permits: u64) -> Result<()> {
        let () = redis::cmd("SET")
            .arg(name)
            .arg(permits)
            .query_async(&mut self.redis)
            .await?;
        Ok(())
    }

    /// Lets JVMs compile what they will need.
    async fn warm_up(&mut self, programs: &[Arc<Program>]) -> Result<()> {
        let time = self.settings.jvm_warm_up / 3;
        eprintln!(
            "  warming up {} JVM(s) for {:.0?} ...",
            programs.len(),
            time * 3
        );
        self.set("bench:warm-up", 1_000_000).await?;
        self.set("bench:warm-up-waiting", 8).await?;
        let turns = [
            ("bench:warm-up", Contestant::RedissonSync, 16),
            ("bench:warm-up", Contestant::RedissonAsync, 64),
            ("bench:warm-up-waiting", Contestant::RedissonSync, 64),
        ];
        for (name, contestant, callers) in turns {
            let fields = crowd_fields(contestant, name, callers, time);
            let calls = programs
                .iter()
                .map(|program| program.call("crowd", fields.clone()));
            futures::future::try_join_all(calls).await?;
        }
        for program in programs {
            until_calm(program.pid()).await?;
        }
        Ok(())
    }

    /// Ends the processes and the server, in this order.
    pub(crate) async fn close(self) {
        let Stage {
            programs, server, ..
        } = self;
        drop(programs);
        drop(server);
    }
}

/// Waits until a process is idle. A warm JVM still compiles in the background, which slows down the first contestant.
async fn until_calm(pid: u32) -> Result<()> {
    let (few_micros, pause, times) = (10_000, Duration::from_millis(200), 50);
    for _ in 0..times {
        let before = meter::cpu_micros(pid)?;
        tokio::time::sleep(pause).await;
        if meter::cpu_micros(pid)? - before <= few_micros {
            break;
        }
    }
    Ok(())
}

/// The fields of the command `crowd`.
pub(crate) fn crowd_fields(
    contestant: Contestant,
    name: &str,
    callers: u64,
    time: Duration,
) -> Value {
    json!({
        "name": name,
        "mode": contestant.mode(),
        "object": contestant.object(),
        "callers": callers,
        "millis": time.as_millis() as u64,
    })
}
