//! A chart of the ratios as SVG: bars on a logarithmic scale.

use super::Report;
use super::comparison::Comparison;
use crate::figures::numbers::precise;
use crate::figures::svg::{self, Anchor, PLAIN, REDISSON, Scale, TEXT};

/// Where the bars may be.
const BARS: f64 = 510.0;
/// Behind them, for their numbers.
const RIGHT: f64 = 60.0;
const TOP: f64 = 84.0;
const BAR: f64 = 11.0;
const ROW: f64 = 32.0;
const HEADING: f64 = 34.0;
const FOOT: f64 = 48.0;
const LABEL: u32 = 12;

pub(super) fn svg(report: &Report, comparisons: &[Comparison]) -> String {
    let labels = comparisons
        .iter()
        .map(|comparison| svg::width(LABEL, &comparison.label));
    let left = labels.fold(0.0, f64::max).max(200.0) + 28.0;
    let ratios = comparisons
        .iter()
        .flat_map(|comparison| [comparison.plain, comparison.redisson]);
    // Bars begin at 1.
    let scale = Scale::over(left, left + BARS, ratios.flatten().chain([1.0]));
    let mut body = String::new();
    let mut y = TOP;
    let mut group = "";
    for comparison in comparisons {
        if comparison.group != group {
            group = comparison.group;
            y += HEADING;
            body += &svg::heading(16.0, y - 10.0, 14, group);
        }
        body += &svg::text(left - 12.0, y + 15.5, Anchor::End, LABEL, &comparison.label);
        body += &bar(scale, y, comparison.plain, PLAIN);
        body += &bar(scale, y + BAR + 1.0, comparison.redisson, REDISSON);
        y += ROW;
    }
    let title = "redisson-semaphore: how many times better";
    let mut all = svg::heading(16.0, 28.0, 18, title);
    let legend = [
        (PLAIN, "than a plain client, one script a call"),
        (REDISSON, "than Redisson (the better of sync and async)"),
    ];
    all += &svg::legend(16.0, 55.0, &legend);
    all += &scale.grid(TOP, y, |power| match power {
        0 => "equal".to_owned(),
        power => format!("× {}", 10_f64.powi(power)),
    });
    let equal = scale.position(1.0);
    all += &svg::line((equal, TOP), (equal, y), TEXT, 1.5);
    all += &body;
    all += &svg::lines(16.0, y + 16.0, &report.machine.to_string());
    svg::picture(left + BARS + RIGHT, y + FOOT, title, &all)
}

/// From "equal" to the ratio.
fn bar(scale: Scale, y: f64, ratio: Option<f64>, colour: &str) -> String {
    let Some(ratio) = ratio else {
        return String::new();
    };
    let (from, to) = (scale.position(1.0), scale.position(ratio));
    let width = (to - from).abs().max(1.0);
    let number = svg::text(
        from.max(to) + 5.0,
        y + BAR - 1.5,
        Anchor::Start,
        10,
        &precise(ratio),
    );
    svg::bar(from.min(to), y, width, BAR, colour) + &number
}
