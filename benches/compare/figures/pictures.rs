//! The pictures of the chapter.

use serde_json::Value;

use super::numbers::{grouped, micros};
use super::svg::{self, Anchor, OURS, OURS_PALE, PLAIN, REDISSON, Scale};
use super::tables::SHARED;
use super::{LOADS, MAX, P50, P99, PAIRS, machine, redisson, value};

const WIDTH: f64 = 900.0;
const TITLE: f64 = 28.0;
const LEGEND: f64 = 54.0;
const TOP: f64 = 92.0;
/// Room behind the longest bar for its number.
const RIGHT: f64 = WIDTH - 80.0;
/// The same for the words behind the longest wait.
const WAITS_RIGHT: f64 = WIDTH - 110.0;
const FOOT: f64 = 34.0;

/// How far labels reach.
fn left(labels: impl IntoIterator<Item = &'static str>) -> f64 {
    let widths = labels.into_iter().map(|label| svg::width(13, label));
    widths.fold(0.0, f64::max) + 28.0
}

pub(super) fn throughput(report: &Value) -> String {
    const BAR: f64 = 12.0;
    let bars = |workload| {
        let bars = [
            ("ours", OURS),
            ("ours via Redis", OURS_PALE),
            ("plain", PLAIN),
            (redisson(report, workload), REDISSON),
        ];
        let bars = bars.map(|(contestant, colour)| {
            Some((value(report, workload, contestant, PAIRS)?, colour))
        });
        bars.into_iter().flatten().collect::<Vec<(f64, &str)>>()
    };
    let all = LOADS
        .map(|(workload, _)| bars(workload))
        .into_iter()
        .flatten();
    let labels = left(LOADS.map(|(_, title)| title));
    let scale = Scale::over(labels, RIGHT, all.map(|(pairs, _)| pairs));
    let mut body = String::new();
    let mut y = TOP + 8.0;
    for (workload, title) in LOADS {
        let bars = bars(workload);
        let middle = y + BAR * bars.len() as f64 / 2.0;
        body += &svg::text(labels - 12.0, middle + 4.0, Anchor::End, 13, title);
        for (pairs, colour) in bars {
            let to = scale.position(pairs);
            body += &svg::bar(labels, y, to - labels, BAR - 1.0, colour);
            body += &svg::text(to + 5.0, y + BAR - 2.0, Anchor::Start, 10, &grouped(pairs));
            y += BAR;
        }
        y += 10.0;
    }
    let titles = ["Pairs of acquire and release a second", "pairs a second"];
    let legend = [
        (OURS, "this crate"),
        (OURS_PALE, "each release through Redis"),
        (PLAIN, "one script a call"),
        (REDISSON, "Redisson"),
    ];
    let grid = scale.grid(TOP, y, svg::number);
    finish(report, titles, &legend, grid + &body, y)
}

pub(super) fn waits(report: &Value) -> String {
    const ROW: f64 = 44.0;
    let wait = |waiting, metric| value(report, "shared", waiting, metric);
    let all = SHARED.map(|(_, waiting, _)| [P50, MAX].map(|metric| wait(waiting, metric)));
    let labels = left(SHARED.map(|(_, _, title)| title));
    let scale = Scale::over(labels, WAITS_RIGHT, all.into_iter().flatten().flatten());
    let mut body = String::new();
    let mut y = TOP + ROW / 2.0 + 4.0;
    for (_, waiting, title) in SHARED {
        let wait = |metric| wait(waiting, metric);
        let Some(median) = wait(P50) else {
            continue;
        };
        let colour = if waiting.contains("Redisson") {
            REDISSON
        } else {
            OURS
        };
        body += &svg::text(labels - 12.0, y + 4.0, Anchor::End, 13, title);
        // From the median to the longest: one half of all waits. Each number stands at its mark, alternating above and below.
        let marks: Vec<(f64, &str)> = [
            (Some(median), "p50"),
            (wait(P99), "p99"),
            (wait(MAX), "longest"),
        ]
        .into_iter()
        .filter_map(|(micros, name)| Some((micros?, name)))
        .collect();
        let positions = marks.iter().map(|(wait, _)| scale.position(*wait));
        let to = positions.fold(labels, f64::max);
        let from = scale.position(median);
        body += &svg::bar(from, y - 3.0, to - from, 6.0, colour);
        for (number, (wait, name)) in marks.iter().enumerate() {
            let x = scale.position(*wait);
            body += &svg::bar(x - 1.5, y - 8.0, 3.0, 16.0, colour);
            let words = format!("{name} {}", micros(*wait));
            let (anchor, x, y) = match number {
                0 => (Anchor::End, x - 5.0, y + 4.0),
                1 => (Anchor::Middle, x, y - 11.0),
                _ => (Anchor::Start, x + 6.0, y + 4.0),
            };
            body += &svg::text(x, y, anchor, 10, &words);
        }
        y += ROW;
    }
    let bottom = y - ROW / 2.0 + 4.0;
    let grid = scale.grid(TOP, bottom, |power| micros(10_f64.powi(power)));
    let titles = [
        "How long callers wait: 4 processes of 64 callers, 8 permits, held 5 ms",
        "time from the call to its permit",
    ];
    let legend = [(OURS, "this crate"), (REDISSON, "Redisson")];
    finish(report, titles, &legend, grid + &body, bottom)
}

/// The output of the demo.
pub(super) fn demo(printed: &str) -> String {
    let height = svg::TERMINAL_LINE * (printed.lines().count() + 2) as f64;
    let body = svg::terminal(WIDTH, height, printed);
    svg::picture(WIDTH, height, "make demo", &body)
}

/// With title, the name of the axis, legend, and where it was measured.
fn finish(
    report: &Value,
    [title, axis]: [&str; 2],
    legend: &[(&str, &str)],
    body: String,
    bottom: f64,
) -> String {
    let mut all = svg::heading(16.0, TITLE, 17, title);
    all += &svg::legend(16.0, LEGEND, legend);
    let axis = format!("{axis}, logarithmic");
    all += &svg::text(WIDTH - 16.0, LEGEND, Anchor::End, 12, &axis);
    all += &body;
    all += &svg::lines(16.0, bottom + 22.0, &machine(report));
    svg::picture(WIDTH, bottom + FOOT, title, &all)
}
