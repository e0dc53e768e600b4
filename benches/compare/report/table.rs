//! Tables for the terminal.

use super::metric::{Metric, PAIRS_PER_SECOND, WAIT_P50};
use super::target::{Needed, Target};
use super::{Row, Workload};
use crate::figures::numbers::precise;

/// A workload's results; `ours is` compares this crate's pairs a second with each row's, or its median wait where no pairs are
/// counted.
pub(super) fn of_workload(workload: &Workload) -> String {
    let mut metrics: Vec<&Metric> = Vec::new();
    for (metric, _) in workload.rows.iter().flat_map(|row| &row.numbers) {
        if metrics.iter().all(|known| known.key != metric.key) {
            metrics.push(metric);
        }
    }
    let ours = workload.rows.iter().find(|row| row.contestant == "ours");
    let compared = |row: &Row| row.value(&PAIRS_PER_SECOND).or(row.value(&WAIT_P50));
    let ours = ours.and_then(compared);
    let shares = workload.rows.iter().any(|row| !row.shares.is_empty());

    let mut head = vec![String::new()];
    head.extend(metrics.iter().map(|metric| metric.head.to_owned()));
    head.extend(ours.map(|_| "ours is".to_owned()));
    head.extend(shares.then(|| "by process".to_owned()));
    let mut lines = vec![head];
    for row in &workload.rows {
        let mut line = vec![format!("  {}", row.contestant)];
        for metric in &metrics {
            let value = row.value(metric).map(|value| metric.write(value));
            line.push(value.unwrap_or_default());
        }
        if let Some(ours) = ours {
            line.push(factor(row, compared(row), ours));
        }
        if shares {
            let shares: Vec<_> = row.shares.iter().map(|rate| format!("{rate:.0}")).collect();
            line.push(shares.join(" "));
        }
        lines.push(line);
    }
    format!("{}\n{}", workload.title, aligned(&lines))
}

fn factor(row: &Row, theirs: Option<f64>, ours: f64) -> String {
    match theirs {
        Some(theirs) if row.contestant != "ours" => format!("x {}", precise(ours / theirs)),
        _ => String::new(),
    }
}

/// The targets that were measured, and how many were not.
pub(super) fn of_targets(targets: &[Target]) -> String {
    let mut lines = vec![
        ["target", "needed", "measured", ""]
            .map(str::to_owned)
            .to_vec(),
    ];
    let (measured, missing): (Vec<&Target>, Vec<_>) =
        targets.iter().partition(|target| target.measured.is_some());
    for target in measured {
        let needed = match target.needed {
            Needed::AtLeast(least) => format!(">= {}", precise(least)),
            Needed::AtMost(most) => format!("<= {}", precise(most)),
        };
        let verdict = match target.reached() {
            Some(true) => "reached",
            Some(false) => "NOT REACHED",
            None => "",
        };
        let measured = target.measured.map(precise).unwrap_or_default();
        lines.push(vec![
            format!("  {}", target.text),
            needed,
            measured,
            verdict.to_owned(),
        ]);
    }
    match missing.len() {
        0 => aligned(&lines),
        count => format!("{}\n({count} others were not measured)", aligned(&lines)),
    }
}

/// The first column to the left, the others to the right.
fn aligned(lines: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = Vec::new();
    for line in lines {
        let mut cells = line.iter().zip(&widths);
        let mut out = String::new();
        if let Some((cell, width)) = cells.next() {
            out += &format!("{cell:<width$}");
        }
        for (cell, width) in cells {
            out += &format!("  {cell:>width$}");
        }
        text.push(out.trim_end().to_owned());
    }
    text.join("\n")
}
