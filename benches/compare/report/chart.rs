//! A chart of the ratios as SVG: bars on a logarithmic scale, readable on light and dark ground.

use std::fmt::Write as _;

use super::Report;
use super::comparison::Comparison;
use super::metric::precise;

const WIDTH: f64 = 900.0;
/// Where the bars may be.
const LEFT: f64 = 330.0;
const RIGHT: f64 = 840.0;
const TOP: f64 = 84.0;
const BAR: f64 = 11.0;
const ROW: f64 = 32.0;
const HEADING: f64 = 34.0;
const FOOT: f64 = 48.0;
/// The scale's end points, as powers of ten.
const LOWEST: f64 = -1.0;
const HIGHEST: f64 = 4.0;

const TEXT: &str = "#7f8790";
const GRID: &str = "#7f879055";
const PLAIN: &str = "#3f8fd2";
const REDISSON: &str = "#d9803c";

pub(super) fn svg(report: &Report, comparisons: &[Comparison]) -> String {
    let mut body = String::new();
    let mut y = TOP;
    let mut group = "";
    for comparison in comparisons {
        if comparison.group != group {
            group = comparison.group;
            y += HEADING;
            body += &text(16.0, y - 10.0, "start", 14, true, group);
        }
        body += &text(LEFT - 12.0, y + 15.5, "end", 12, false, &comparison.label);
        body += &bar(y, comparison.plain, PLAIN);
        body += &bar(y + BAR + 1.0, comparison.redisson, REDISSON);
        y += ROW;
    }
    let height = y + FOOT;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"system-ui, sans-serif\" fill=\"{TEXT}\">\n"
    );
    let title = "redisson-semaphore: how many times better";
    svg += &text(16.0, 28.0, "start", 18, true, title);
    svg += &legend();
    svg += &grid(y);
    svg += &body;
    for (index, line) in report.machine.to_string().lines().enumerate() {
        let below = y + 16.0 + 13.0 * index as f64;
        svg += &text(16.0, below, "start", 10, false, line);
    }
    svg + "</svg>\n"
}

fn legend() -> String {
    let mut svg = String::new();
    let entries = [
        (16.0, PLAIN, "than a plain client, one script a call"),
        (
            280.0,
            REDISSON,
            "than Redisson (the better of sync and async)",
        ),
    ];
    for (x, colour, words) in entries {
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"44\" width=\"12\" height=\"12\" fill=\"{colour}\"/>"
        );
        svg += &text(x + 18.0, 55.0, "start", 13, false, words);
    }
    svg
}

/// A line at each power of ten; the one of "equal" is strong.
fn grid(bottom: f64) -> String {
    let mut svg = String::new();
    for power in LOWEST as i32..=HIGHEST as i32 {
        let x = position(10_f64.powi(power));
        let (colour, width) = if power == 0 { (TEXT, 1.5) } else { (GRID, 1.0) };
        let _ = writeln!(
            svg,
            "<line x1=\"{x}\" x2=\"{x}\" y1=\"{TOP}\" y2=\"{bottom}\" stroke=\"{colour}\" \
             stroke-width=\"{width}\"/>"
        );
        let words = match power {
            0 => "equal".to_owned(),
            power => format!("× {}", 10_f64.powi(power)),
        };
        svg += &text(x, TOP - 6.0, "middle", 11, false, &words);
    }
    svg
}

/// From "equal" to the ratio.
fn bar(y: f64, ratio: Option<f64>, colour: &str) -> String {
    let Some(ratio) = ratio else {
        return String::new();
    };
    let (from, to) = (position(1.0), position(ratio));
    let (x, width) = (from.min(to), (to - from).abs().max(1.0));
    let mut svg = format!(
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\" fill=\"{colour}\"/>\n"
    );
    svg += &text(
        from.max(to) + 5.0,
        y + BAR - 1.5,
        "start",
        10,
        false,
        &precise(ratio),
    );
    svg
}

fn position(ratio: f64) -> f64 {
    let power = ratio.max(f64::MIN_POSITIVE).log10().clamp(LOWEST, HIGHEST);
    LEFT + (RIGHT - LEFT) * (power - LOWEST) / (HIGHEST - LOWEST)
}

fn text(x: f64, y: f64, anchor: &str, size: u32, bold: bool, words: &str) -> String {
    let weight = if bold { " font-weight=\"600\"" } else { "" };
    let words = words
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\"{weight}>{words}</text>\n"
    )
}
