//! The use of the server and the processes so far.

use redis::aio::MultiplexedConnection;

use crate::Result;

/// The unit of processor time in `/proc`, the same on every Linux.
const TICK_MICROS: u64 = 10_000;
const PAGE_BYTES: u64 = 4096;
/// From there on a script counts as long.
const LONG_MICROS: u64 = 100;
/// So many of them are remembered.
const MOST_LONG: u64 = 100_000;

/// The server's counters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerUse {
    pub(crate) cpu_micros: u64,
    /// Scripts carried out.
    pub(crate) scripts: u64,
    /// And how long they took in all.
    pub(crate) script_micros: u64,
    /// Commands of every kind, those of scripts included.
    pub(crate) commands: u64,
}

impl ServerUse {
    pub(crate) async fn read(redis: &mut MultiplexedConnection) -> Result<ServerUse> {
        let cpu = info(redis, "cpu").await?;
        let seconds = |name| field(&cpu, name).and_then(|text| text.parse::<f64>().ok());
        let seconds = seconds("used_cpu_user")
            .zip(seconds("used_cpu_sys"))
            .map(|(user, sys)| user + sys)
            .ok_or("no processor time in INFO")?;
        let commands = info(redis, "commandstats").await?;
        let calls = commands.lines().filter_map(|line| {
            let (name, counts) = line.split_once(":calls=")?;
            let (count, rest) = counts.split_once(",usec=")?;
            let micros = rest.split(',').next()?.parse::<u64>().ok()?;
            Some((name, count.parse::<u64>().ok()?, micros))
        });
        let (mut scripts, mut script_micros, mut commands) = (0, 0, 0);
        for (name, count, micros) in calls {
            commands += count;
            if matches!(name, "cmdstat_evalsha" | "cmdstat_eval" | "cmdstat_fcall") {
                scripts += count;
                script_micros += micros;
            }
        }
        Ok(ServerUse {
            cpu_micros: (seconds * 1e6) as u64,
            scripts,
            script_micros,
            commands,
        })
    }
}

/// The server keeps a list of the scripts that take long, from now on.
pub(crate) async fn watch_long_scripts(redis: &mut MultiplexedConnection) -> Result<()> {
    let settings = [
        ("slowlog-log-slower-than", LONG_MICROS),
        ("slowlog-max-len", MOST_LONG),
    ];
    for (name, value) in settings {
        let mut set = redis::cmd("CONFIG");
        let () = set
            .arg("SET")
            .arg(name)
            .arg(value)
            .query_async(redis)
            .await?;
    }
    let () = redis::cmd("SLOWLOG")
        .arg("RESET")
        .query_async(redis)
        .await?;
    Ok(())
}

/// How long the scripts took that have taken long since then, in microseconds, the longest first.
pub(crate) async fn long_scripts(redis: &mut MultiplexedConnection) -> Result<Vec<u64>> {
    type Entry = (u64, u64, u64, Vec<redis::Value>, redis::Value, redis::Value);
    let mut get = redis::cmd("SLOWLOG");
    let entries: Vec<Entry> = get.arg("GET").arg(MOST_LONG).query_async(redis).await?;
    let is_script = |words: &[redis::Value]| match words.first() {
        Some(redis::Value::BulkString(name)) => name.to_ascii_uppercase().starts_with(b"EVAL"),
        _ => false,
    };
    let entries = entries.into_iter().filter(|entry| is_script(&entry.3));
    let mut micros: Vec<u64> = entries.map(|entry| entry.2).collect();
    micros.sort_unstable_by(|a, b| b.cmp(a));
    Ok(micros)
}

/// A section of `INFO`.
pub(crate) async fn info(redis: &mut MultiplexedConnection, section: &str) -> Result<String> {
    let text = redis::cmd("INFO").arg(section).query_async(redis).await?;
    Ok(text)
}

/// A field of a section.
pub(crate) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}

/// The processor time of a process and its threads, those that have ended included.
pub(crate) fn cpu_micros(pid: u32) -> Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in brackets may hold anything; user and system time are fields 14 and 15, state is 3.
    let (_, fields) = stat.rsplit_once(") ").ok_or("no process statistics")?;
    let mut times = fields.split(' ').skip(11).take(2).map(str::parse::<u64>);
    let (user, system) = times.next().zip(times.next()).ok_or("no process times")?;
    Ok((user? + system?) * TICK_MICROS)
}

/// The memory of a process that is in RAM.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64> {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm"))?;
    let resident = statm.split(' ').nth(1).ok_or("no memory statistics")?;
    Ok(resident.parse::<u64>()? * PAGE_BYTES)
}
