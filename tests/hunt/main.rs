//! The simulator runs the crate and its scripts, unchanged, in a world that a seed determines.
//!
//! A seed determines a history: the clients with their settings, the calls of their callers, and the faults of connections, server and clients
//! ([`plan`]). A history runs on one thread in simulated time ([`world`], [`actors`]), and judges watch it ([`judge`]). Faults happen in its first
//! part. Then everything heals, all waiters are served, and the world becomes quiet ([`history`]). About a fourth of the histories run on a cluster,
//! whose slots move and whose masters are replaced. In others the server has a replica that clients wait for: it lags, goes away and takes over. In
//! half of the histories clients have threads: another task may run where a task has unlocked something ([`tasks`]). The same seed gives the same
//! history, to the byte. A failing history is shrunk to few events before it is printed ([`shrink`]).
//!
//! - `cargo test --test hunt`: the named histories ([`named`]), and then others for a minute. These have the same seeds on every day, so that
//!   a failure is due to a change, and not to the date;
//! - `SIM=10m`: the named ones, and as many others as there is time for. Their seeds begin at `FROM=<seed>`, or at random.
//!   With `BRIEF=1` the events of a failing one are not printed;
//! - `SEED=<seed>`: that history; if it fails, line by line.
#![allow(unreachable_pub)]

mod actors;
mod admin;
mod history;
mod judge;
mod jvm;
mod named;
mod net;
mod plan;
mod process;
mod run;
mod shrink;
// The tests in `models` use the rest of this module.
#[allow(dead_code)]
#[path = "../sim"]
mod sim {
    pub mod scripts;
    pub mod server;
}
mod tasks;
mod trace;
mod world;

use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use judge::Fault;
use plan::Plan;

/// In `cargo test`: how long histories run, the first seed, and how many histories run twice.
const A_WHILE: Duration = Duration::from_secs(60);
const FIRST: u64 = 1_000_000;
const TWICE: u64 = 10;

fn main() -> ExitCode {
    if is_meant_for_others() {
        return ExitCode::SUCCESS;
    }
    run::keep_panics();
    let brief = set::<u8>("BRIEF") == Some(1);
    let seed = set::<u64>("SEED");
    let well = match (seed, std::env::var("SIM")) {
        (Some(seed), _) => tell(&format!("SEED={seed}"), &Plan::of(seed), false),
        (None, Ok(text)) if !text.is_empty() => {
            let from = set("FROM").unwrap_or_else(|| fastrand::u64(..) >> 16);
            all_named(brief) && hunt(from, duration(&text), brief)
        }
        _ => all_named(brief) && run::twice(FIRST, TWICE) && hunt(FIRST + TWICE, A_WHILE, brief),
    };
    match well {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Whether `cargo test` asks for the tests' names, or for tests of other names. All its other arguments are ignored.
fn is_meant_for_others() -> bool {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut filters = arguments.iter().filter(|word| !word.starts_with('-'));
    let listed = arguments.iter().any(|argument| argument == "--list");
    listed || filters.any(|filter| !"hunt".contains(filter.as_str()))
}

/// Reads a number from an environment variable, if it is set.
fn set<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| refuse(name, &text)))
}

/// Parses `90`, `90s` or `10m`.
fn duration(text: &str) -> Duration {
    let (number, unit) = match text.strip_suffix('m') {
        Some(minutes) => (minutes, 60),
        None => (text.strip_suffix('s').unwrap_or(text), 1),
    };
    let number: u32 = number.parse().unwrap_or_else(|_| refuse("SIM", text));
    Duration::from_secs(u64::from(number) * unit)
}

fn refuse(name: &str, text: &str) -> ! {
    eprintln!("{name}={text:?} makes no sense");
    std::process::exit(2)
}

/// Runs the named histories. Returns whether none of them fails.
fn all_named(brief: bool) -> bool {
    let named = named::all();
    run::on_all_cores(|number| {
        let (name, plan) = named.get(usize::try_from(number).ok()?)?;
        Some(tell(name, plan, brief))
    })
}

/// Runs histories until one fails, and prints that one, unless `brief`.
fn hunt(from: u64, time: Duration, brief: bool) -> bool {
    let failed = run::hunt(from, time);
    if let Some(seed) = failed.filter(|_| !brief) {
        tell(&format!("SEED={seed}"), &Plan::of(seed), false);
    }
    failed.is_none()
}

/// Runs a history, and returns whether it is well. If it fails, prints its fault and, unless `brief`, the few events that lead to it.
fn tell(name: &str, plan: &Plan, brief: bool) -> bool {
    let outcome = run::carry_out(plan);
    let Some(fault) = outcome.fault else {
        println!(
            "{name} is well: {} commands, {} grants",
            outcome.commands, outcome.granted
        );
        return true;
    };
    println!("{name} fails: {fault}");
    if brief {
        return false;
    }
    let plan = shrink::shrunk(plan, &fault);
    println!("{:#?}", plan.settings);
    for event in &plan.events {
        println!("{:?} {:?}", event.at, event.what);
    }
    let outcome = run::carry_out(&plan);
    for line in &outcome.lines {
        println!("{line}");
    }
    if let Some(Fault { judge, detail }) = outcome.fault {
        println!("{name}: {judge}: {detail}");
    }
    false
}
