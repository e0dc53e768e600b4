//! The tables of the chapter, in Markdown.

use serde_json::Value;

use super::numbers::{grouped, micros, percent, precise};
use super::{HELD, LOADS, MAX, P50, P99, PAIRS, machine, redisson, value};

/// All tables, each with its name in the page.
pub(super) fn all(report: &Value) -> [(&'static str, String); 7] {
    [
        ("machine", format!("{}.\n", machine(report))),
        ("throughput", throughput(report)),
        ("hand-over", hand_over(report)),
        ("shared", shared(report)),
        ("line", line(report)),
        ("held", held(report)),
        ("recipes", recipes(report)),
    ]
}

fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    let mut text = row(&head);
    text += &format!("|{}\n", "---|".repeat(head.len()));
    for cells in rows {
        text += &row(&cells);
    }
    text.replace("|  |", "| |").replace("|  |", "| |")
}

/// The formatted number, or an empty cell.
fn cell(value: Option<f64>, write: impl Fn(f64) -> String) -> String {
    value.map(write).unwrap_or_default()
}

/// Pairs a second, and the p99 wait where permits are scarce.
fn pairs(report: &Value, workload: &str, contestant: &str) -> String {
    let mut text = cell(value(report, workload, contestant, PAIRS), grouped);
    if workload.contains("scarce")
        && let Some(wait) = value(report, workload, contestant, P99)
    {
        text += &format!(", p99 wait {}", micros(wait));
    }
    text
}

fn throughput(report: &Value) -> String {
    let head = [
        "Pairs of acquire(1) and release(1) a second",
        "this crate",
        "the same, each release through Redis",
        "one script a call, redis crate",
        "Redisson, the faster of sync and async",
    ];
    let rows = LOADS.map(|(workload, title)| {
        let redisson = redisson(report, workload);
        let contestants = ["ours", "ours via Redis", "plain", redisson];
        let cells = contestants.map(|contestant| pairs(report, workload, contestant));
        [vec![title.to_owned()], cells.to_vec()].concat()
    });
    table(&head, rows)
}

fn hand_over(report: &Value) -> String {
    let head = ["What is passed on", "this crate", "redis crate", "Redisson"];
    let rows = [
        ("wake-up", "a permit, from release to acquired"),
        ("lock-hand-over", "a lock, from unlock to locked"),
    ];
    let rows = rows.map(|(workload, title)| {
        let cells = [
            &["ours"][..],
            &["plain"],
            &["Redisson sync", "Redisson async"],
        ];
        let cells = cells.map(|contestants| {
            let quickest = |metric| {
                let all = contestants
                    .iter()
                    .filter_map(|one| value(report, workload, one, metric));
                all.reduce(f64::min)
            };
            match (quickest(P50), quickest(P99)) {
                (Some(p50), Some(p99)) => format!("p50 {}, p99 {}", micros(p50), micros(p99)),
                (Some(p50), None) => format!("p50 {}", micros(p50)),
                _ => String::new(),
            }
        });
        [vec![title.to_owned()], cells.to_vec()].concat()
    });
    table(&head, rows)
}

/// The rows of the table: the contestant whose permit use is shown, the contestant whose waits are shown, and the title.
pub(super) const SHARED: [(&str, &str, &str); 4] = [
    ("ours", "ours", "four processes of this crate"),
    ("Redisson sync", "Redisson sync", "four JVMs"),
    ("two of each", "- ours", "two of this crate beside two JVMs"),
    (
        "two of each",
        "- Redisson sync",
        "two JVMs beside two of this crate",
    ),
];

fn shared(report: &Value) -> String {
    let head = [
        "64 callers each, 8 permits, held 5 ms",
        "p50",
        "p99",
        "longest",
        "permits held",
    ];
    let rows = SHARED.map(|(composition, waiting, title)| {
        let wait = |metric| cell(value(report, "shared", waiting, metric), micros);
        let held = cell(value(report, "shared", composition, HELD), percent);
        vec![title.to_owned(), wait(P50), wait(P99), wait(MAX), held]
    });
    table(&head, rows)
}

fn line(report: &Value) -> String {
    let head = ["100,000 callers that wait", "this crate"];
    let rows = [
        ("memory for each", "bytes_per_waiter", "bytes"),
        (
            "a release of 1 for them",
            "scripts_per_release_of_1",
            "scripts",
        ),
        (
            "a release of 1,000",
            "scripts_per_release_of_1000",
            "scripts",
        ),
    ];
    let rows = rows.into_iter().filter_map(|(title, metric, unit)| {
        let number = precise(value(report, "line", "ours", metric)?);
        Some(vec![title.to_owned(), format!("{number} {unit}")])
    });
    table(&head, rows)
}

fn held(report: &Value) -> String {
    let head = ["100,000 permits with ids, held by guards", "this crate"];
    let number = |metric| value(report, "leased-held", "ours", metric);
    let rows = [
        (
            "scripts that renew all of them",
            number("scripts_per_period").map(precise),
        ),
        (
            "their time in the server",
            number("script_micros_per_period").map(micros),
        ),
        (
            "99.9 % of them take",
            number("script_p99_9_micros").map(|time| format!("at most {}", micros(time))),
        ),
        ("the longest one", number("script_max_micros").map(micros)),
    ];
    let rows = rows.into_iter();
    let rows = rows.filter_map(|(title, text)| Some(vec![title.to_owned(), text?]));
    table(&head, rows)
}

fn recipes(report: &Value) -> String {
    let head = [
        "Fair semaphore, pairs a second",
        "this crate",
        "the original",
        "in transactions",
    ];
    let loads = [
        ("fair-1", "1 caller"),
        ("fair-held", "1 caller beside 10,000 holders"),
        ("fair-256", "256 callers of one process"),
        ("fair-scarce", "256 callers on 8 permits"),
    ];
    let rows = loads.map(|(workload, title)| {
        let contestants = ["ours", "original", "in transactions"];
        let cells = contestants.map(|contestant| pairs(report, workload, contestant));
        [vec![title.to_owned()], cells.to_vec()].concat()
    });
    table(&head, rows)
}
