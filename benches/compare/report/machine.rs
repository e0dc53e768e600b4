//! Where and with what was measured.

use std::fmt;
use std::process::Command;

use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};

use crate::Result;
use crate::meter::{field, info};
use crate::program::REDISSON;

/// Names and versions; "?" where something can't be found out.
pub(crate) struct Machine {
    mode: &'static str,
    date: String,
    processor: String,
    cores: usize,
    load: String,
    redis: String,
    rustc: String,
    redis_crate: String,
    jdk: String,
}

impl Machine {
    pub(crate) async fn look(
        redis: &mut MultiplexedConnection,
        mode: &'static str,
    ) -> Result<Self> {
        let server = info(redis, "server").await?;
        let unknown = || "?".to_owned();
        Ok(Machine {
            mode,
            date: first_line("date", "-uI").unwrap_or_else(unknown),
            processor: processor().unwrap_or_else(unknown),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            load: load().unwrap_or_else(unknown),
            redis: field(&server, "redis_version").unwrap_or("?").to_owned(),
            rustc: first_line("rustc", "--version").unwrap_or_else(unknown),
            redis_crate: redis_crate().unwrap_or_else(unknown),
            jdk: first_line("java", "-version").unwrap_or_else(unknown),
        })
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "mode": self.mode,
            "date": self.date,
            "processor": self.processor,
            "cores": self.cores,
            "load_before": self.load,
            "redis_server": self.redis,
            "rustc": self.rustc,
            "crate": env!("CARGO_PKG_VERSION"),
            "redis_crate": self.redis_crate,
            "redisson": REDISSON,
            "jdk": self.jdk,
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} run on {} cores of {}, load before it {}",
            self.mode, self.cores, self.processor, self.load
        )?;
        writeln!(
            f,
            "ours: redisson-semaphore {}; plain: redis crate {}; {}",
            env!("CARGO_PKG_VERSION"),
            self.redis_crate,
            self.rustc
        )?;
        write!(
            f,
            "Redisson {REDISSON}, {}; redis-server {}",
            self.jdk, self.redis
        )
    }
}

fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(": ")?.1.to_owned())
}

/// The load of the last minute: well below 1 on a machine that is left alone.
fn load() -> Option<String> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    Some(text.split(' ').next()?.to_owned())
}

/// The first line that a program prints.
fn first_line(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    Some(String::from_utf8_lossy(&text).lines().next()?.to_owned())
}

/// The version in the lock file.
fn redis_crate() -> Option<String> {
    let lock = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.lock")).ok()?;
    let (_, entry) = lock.split_once("name = \"redis\"\nversion = \"")?;
    Some(entry.split_once('"')?.0.to_owned())
}
