//! The simulator: the crate and its scripts, unchanged, in a world that is made up from a seed.
//!
//! A history is drawn from its seed: clients with their settings, what their callers do, and what goes wrong with
//! connections, server and clients ([`plan`]). It is carried out on one thread, in no time ([`world`], [`actors`]), and
//! watched by judges ([`judge`]). In its first part things go wrong; then everything heals, all who wait are served, and it
//! becomes quiet ([`history`]). A fourth of the histories happen at a cluster, whose slots move and whose masters are replaced:
//! the crate's own routing runs there, as all that is put in its place are the streams to nodes. In a fifth each server has a
//! replica, for which all clients, or some, wait (`wait_for_replicas`): it lags, is away and takes over, and what was confirmed is
//! there then. In half of them clients have threads: where one of their tasks has unlocked something, another one may run ([`tasks`]).
//! The same seed gives the same history, to the byte. One that fails is told with as few events as
//! it takes ([`shrink`]).
//!
//! - `cargo test --test hunt`: the histories that have found something ([`named`]), and for a minute others, the same
//!   on every day: a change is judged, and not the date;
//! - `SIM=10m`: as many as there is time for, on all cores, from `FROM=<seed>` on or from anywhere;
//!   (`BRIEF=1`: without the story of one that fails; `ALL=1`: going on, with the seeds of all that fail; `EVERY=4` with
//!   `FROM=4`: those at clusters alone, `EVERY=5` with `FROM=3`: those with replicas);
//! - `SEED=<seed>`: that one, line by line (`WHOLE=1`: with all its events; `TRACE=1`: even if it is well);
//! - `PLANS=100`: what so many seeds draw, a line each;
//! - `TWICE=1000`: so many, each twice, to see that they are the same.
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
use std::time::Duration;

use judge::Fault;
use plan::Plan;

/// For how long histories are tried in `cargo test`, from which seed on, and how many of them twice.
const A_WHILE: Duration = Duration::from_secs(60);
const FIRST: u64 = 1_000_000;
const TWICE: u64 = 10;

fn main() -> ExitCode {
    if is_meant_for_others(std::env::args().skip(1)) {
        return ExitCode::SUCCESS;
    }
    run::keep_panics();
    // What makes no sense is refused at once.
    for name in ["ALL", "BRIEF", "TRACE", "WHOLE"] {
        is_set(name);
    }
    let step = count("EVERY").unwrap_or(1);
    if let Some(count) = count("PLANS") {
        let from = number("FROM").unwrap_or(1);
        (from..from + count).for_each(|seed| println!("{seed}: {}", Plan::of(seed).summary()));
        return ExitCode::SUCCESS;
    }
    let well = if let Some(seed) = number("SEED") {
        tell(&format!("SEED={seed}"), &Plan::of(seed))
    } else if let Some(count) = count("TWICE") {
        run::twice(number("FROM").unwrap_or(FIRST), count)
    } else if let Some(text) = word("SIM") {
        let from = number("FROM").unwrap_or_else(|| fastrand::u64(..) >> 16);
        hunt(from, step, duration(&text))
    } else {
        let named = named::all();
        let named = run::on_all_cores(named.len(), |number| {
            let (name, plan) = &named[number];
            tell(name, plan)
        });
        named && run::twice(FIRST, TWICE) && hunt(FIRST + TWICE, step, A_WHILE)
    };
    if well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Whether `cargo test` asks for the tests' names, or for tests of other names. Nothing else matters of what it passes on.
fn is_meant_for_others(mut arguments: impl Iterator<Item = String>) -> bool {
    const WITH_A_VALUE: [&str; 7] = [
        "--color",
        "--format",
        "--logfile",
        "--shuffle-seed",
        "--skip",
        "--test-threads",
        "-Z",
    ];
    let mut filters = Vec::new();
    while let Some(argument) = arguments.next() {
        if argument == "--list" {
            return true;
        }
        if WITH_A_VALUE.contains(&argument.as_str()) {
            arguments.next();
        } else if !argument.starts_with('-') {
            filters.push(argument);
        }
    }
    let meant = |filter: &String| "hunt".contains(filter.as_str());
    !filters.is_empty() && !filters.iter().any(meant)
}

/// What the environment says; nothing where it says nothing.
fn word(name: &str) -> Option<String> {
    let text = std::env::var_os(name).filter(|text| !text.is_empty())?;
    let text = text.into_string();
    Some(text.unwrap_or_else(|text| refuse(name, &text.to_string_lossy(), "a text")))
}

/// `1` or `0`.
fn is_set(name: &str) -> bool {
    word(name).is_some_and(|text| match text.as_str() {
        "1" => true,
        "0" => false,
        _ => refuse(name, &text, "1 or 0"),
    })
}

/// Seeds leave room for those behind them.
fn number(name: &str) -> Option<u64> {
    let text = word(name)?;
    let number = text.parse().ok().filter(|number| *number <= u64::MAX / 2);
    Some(number.unwrap_or_else(|| refuse(name, &text, "a whole number below 2^63")))
}

/// A number of which one at least is wanted.
fn count(name: &str) -> Option<u64> {
    number(name).map(|count| {
        if count == 0 {
            refuse(name, "0", "at least 1")
        } else {
            count
        }
    })
}

/// `90`, `90s` or `10m`, up to a week.
fn duration(text: &str) -> Duration {
    const MOST: u64 = 7 * 86_400;
    let (number, unit) = match text.strip_suffix('m') {
        Some(minutes) => (minutes, 60),
        None => (text.strip_suffix('s').unwrap_or(text), 1),
    };
    let seconds = number
        .parse()
        .ok()
        .and_then(|number: u64| number.checked_mul(unit));
    let seconds = seconds.filter(|seconds| (1..=MOST).contains(seconds));
    Duration::from_secs(
        seconds.unwrap_or_else(|| refuse("SIM", text, "a time up to a week, as 90s or 10m")),
    )
}

fn refuse(name: &str, text: &str, wanted: &str) -> ! {
    eprintln!("{name} is {wanted}, not {text:?}");
    std::process::exit(2)
}

/// Carries histories out until one fails, and tells that one.
fn hunt(from: u64, step: u64, time: Duration) -> bool {
    let go_on = is_set("ALL");
    match run::hunt(from, step, time, go_on) {
        None => true,
        Some(seed) => {
            if !go_on && !is_set("BRIEF") {
                tell(&format!("SEED={seed}"), &Plan::of(seed));
            }
            false
        }
    }
}

/// Tells what happens in this history; with as few events as it takes, if it fails.
fn tell(name: &str, plan: &Plan) -> bool {
    let outcome = run::carry_out(plan, true);
    let Some(fault) = outcome.fault else {
        println!(
            "{name} is well: {} commands, {} grants",
            outcome.commands, outcome.granted
        );
        if is_set("TRACE") {
            outcome.lines.iter().for_each(|line| println!("{line}"));
        }
        return true;
    };
    println!("{name} fails: {fault}");
    let plan = match is_set("WHOLE") {
        true => plan.clone(),
        false => shrink::shrunk(plan, &fault),
    };
    println!("{:#?}", plan.settings);
    for event in &plan.events {
        println!("{:?} {:?}", event.at, event.what);
    }
    let outcome = run::carry_out(&plan, true);
    for line in &outcome.lines {
        println!("{line}");
    }
    match outcome.fault {
        Some(Fault { judge, detail }) => println!("{name}: {judge}: {detail}"),
        None => println!("{name}: not with these events alone"),
    }
    false
}
