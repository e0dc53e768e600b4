//! What the server and the processes have used so far.

use redis::aio::MultiplexedConnection;

use crate::Result;

/// The unit of processor time in `/proc`, the same on every Linux.
const TICK_MICROS: u64 = 10_000;
const PAGE_BYTES: u64 = 4096;

/// The server's counters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerUse {
    pub(crate) cpu_micros: u64,
    /// Scripts carried out.
    pub(crate) scripts: u64,
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
        let calls = |name| {
            let counts = field(&commands, name)?.strip_prefix("calls=")?;
            counts.split(',').next()?.parse::<u64>().ok()
        };
        let scripts = ["cmdstat_evalsha", "cmdstat_eval"].map(|name| calls(name).unwrap_or(0));
        Ok(ServerUse {
            cpu_micros: (seconds * 1e6) as u64,
            scripts: scripts.iter().sum(),
        })
    }
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
