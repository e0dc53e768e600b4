//! The simulator: the crate and its scripts, unchanged, in a world that is made up from a seed.
//!
//! A history is drawn from its seed: clients with their settings, what their callers do, and what goes wrong with
//! connections, server and clients ([`plan`]). It is carried out on one thread, in no time ([`world`], [`actors`]), and
//! watched by judges ([`judge`]). In its first part things go wrong; then everything heals, all waiters are served, and it
//! becomes quiet ([`history`]). A fourth of the histories happen at a cluster, whose slots move and whose masters are replaced.
//! In others the server has a replica, for which clients wait: it lags, is away and takes over. In half of them clients have
//! threads: where one of their tasks has unlocked something, another one may run ([`tasks`]).
//! The same seed gives the same history, to the byte. One that fails is told with few events ([`shrink`]).
//!
//! - `cargo test --test hunt`: the histories that have found something ([`named`]), and for a minute others, the same
//!   on every day: a change is judged, and not the date;
//! - `SIM=10m`: the named ones, and as many others as there is time for, from `FROM=<seed>` on or from anywhere
//!   (`BRIEF=1`: without the story of one that fails);
//! - `SEED=<seed>`: that one; if it fails, line by line.
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
// Its comparison with a real server uses more of it.
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

/// For how long histories are tried in `cargo test`, from which seed on, and how many of them twice.
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

/// Whether `cargo test` asks for the tests' names, or for tests of other names. Nothing else matters of what it passes on.
fn is_meant_for_others() -> bool {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut filters = arguments.iter().filter(|word| !word.starts_with('-'));
    let listed = arguments.iter().any(|argument| argument == "--list");
    listed || filters.any(|filter| !"hunt".contains(filter.as_str()))
}

/// A number that the environment sets.
fn set<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| refuse(name, &text)))
}

/// `90`, `90s` or `10m`.
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

/// Whether the histories that have found something are well.
fn all_named(brief: bool) -> bool {
    let named = named::all();
    run::on_all_cores(|number| {
        let (name, plan) = named.get(usize::try_from(number).ok()?)?;
        Some(tell(name, plan, brief))
    })
}

/// Carries histories out until one fails, and tells that one.
fn hunt(from: u64, time: Duration, brief: bool) -> bool {
    let failed = run::hunt(from, time);
    if let Some(seed) = failed.filter(|_| !brief) {
        tell(&format!("SEED={seed}"), &Plan::of(seed), false);
    }
    failed.is_none()
}

/// Tells what happens in this history if it fails, with as few events as it takes; whether it is well.
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
