//! The guide's chapter of figures, filled from the report of a run: `benches/figures.json`.
//!
//! The module knows nothing about the measurement, so a test can fill the chapter again and compare.

pub(crate) mod numbers;
pub(crate) mod svg;

mod pictures;
mod tables;

use serde_json::Value;

/// The pictures, with their file names in `src/guide`. `demo` is the output of the demo.
pub(crate) fn pictures(report: &Value, demo: &str) -> [(&'static str, String); 3] {
    [
        ("waits.svg", pictures::waits(report)),
        ("throughput.svg", pictures::throughput(report)),
        ("demo.svg", pictures::demo(demo)),
    ]
}

/// Fills the tables of the chapter: replaces the text between `<!-- name -->` and `<!-- end -->`.
pub(crate) fn chapter(page: &str, report: &Value) -> String {
    let mut filled = page.to_owned();
    for (name, table) in tables::all(report) {
        let begin = format!("<!-- {name} -->\n");
        let Some((before, rest)) = filled.split_once(&begin) else {
            continue;
        };
        let Some((_, after)) = rest.split_once("<!-- end -->") else {
            continue;
        };
        filled = format!("{before}{begin}\n{table}\n<!-- end -->{after}");
    }
    filled
}

/// The workloads that the chapter describes and the report lacks.
pub(crate) fn missing(report: &Value) -> Vec<&'static str> {
    let others = [
        "wake-up",
        "lock-hand-over",
        "shared",
        "line",
        "leased-held",
        "fair-1",
        "fair-held",
        "fair-256",
        "fair-scarce",
    ];
    let all = LOADS
        .map(|(workload, _)| workload)
        .into_iter()
        .chain(others);
    let workloads = report["workloads"].as_array();
    let known = |name: &str| {
        let workloads = workloads.into_iter().flatten();
        workloads
            .into_iter()
            .any(|workload| workload["name"] == name)
    };
    all.filter(|name| !known(name)).collect()
}

/// One number of the report, if it was measured.
fn value(report: &Value, workload: &str, contestant: &str, metric: &str) -> Option<f64> {
    let workloads = report["workloads"].as_array()?;
    let workload = workloads.iter().find(|known| known["name"] == workload)?;
    let results = workload["results"].as_array()?;
    let row = results.iter().find(|row| row["contestant"] == contestant)?;
    row[metric].as_f64()
}

/// The way of calling Redisson that reaches the most pairs a second.
fn redisson(report: &Value, workload: &str) -> &'static str {
    let pairs = |way| value(report, workload, way, PAIRS).unwrap_or_default();
    let (sync, unsync) = ("Redisson sync", "Redisson async");
    if pairs(unsync) > pairs(sync) {
        unsync
    } else {
        sync
    }
}

const PAIRS: &str = "pairs_per_second";
const P50: &str = "wait_p50_micros";
const P99: &str = "wait_p99_micros";
const MAX: &str = "wait_max_micros";
const HELD: &str = "permit_use";

/// The workloads whose throughput is shown, with their titles.
const LOADS: [(&str, &str); 9] = [
    ("ample-1", "1 caller"),
    ("ample-16", "16 callers"),
    ("ample-256", "256 callers"),
    ("ample-1024", "1,024 callers"),
    ("scarce-1024", "1,024 callers on 8 permits"),
    ("many-1000", "1,000 semaphores, 1 caller each"),
    ("leased-1", "permits with ids, 1 caller"),
    ("leased-256", "permits with ids, 256 callers"),
    ("lock-1", "a lock, 1 caller"),
];

/// The machine and the software of the measurement, in one sentence.
fn machine(report: &Value) -> String {
    let machine = &report["machine"];
    let text = |field: &str| machine[field].as_str().unwrap_or("?").to_owned();
    let mut jdk = text("jdk");
    if let Some(version) = jdk.split('"').nth(1) {
        jdk = format!("OpenJDK {version}");
    }
    let rustc = text("rustc");
    let rustc = rustc.split(" (").next().unwrap_or_default();
    format!(
        "{}, {} cores of an {}, redis-server {}, {rustc}, redis crate {}, Redisson {} on {jdk}",
        text("date"),
        machine["cores"],
        text("processor"),
        text("redis_server"),
        text("redis_crate"),
        text("redisson"),
    )
}
