//! The parts of a picture, readable on light and dark ground.

use std::fmt::Write as _;

use super::numbers::grouped;

pub(crate) const TEXT: &str = "#7f8790";
pub(crate) const GRID: &str = "#7f879055";
pub(crate) const OURS: &str = "#2f9e6e";
pub(crate) const OURS_PALE: &str = "#8fcfb4";
pub(crate) const PLAIN: &str = "#3f8fd2";
pub(crate) const REDISSON: &str = "#d9803c";

/// Where text stands, from its `x`.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture of this size: no empty line, and the first tag alone on its line, so that it may stand in Markdown as it is.
pub(crate) fn picture(width: f64, height: f64, title: &str, body: &str) -> String {
    let title = escaped(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" \
         font-family=\"system-ui, sans-serif\" fill=\"{TEXT}\">\n<title>{title}</title>\n{body}</svg>\n"
    )
}

pub(crate) fn text(x: f64, y: f64, anchor: Anchor, size: u32, words: &str) -> String {
    let anchor = match anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    };
    let words = escaped(words);
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\">{words}</text>\n"
    )
}

pub(crate) fn heading(x: f64, y: f64, size: u32, words: &str) -> String {
    let words = escaped(words);
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" font-weight=\"600\">{words}</text>\n"
    )
}

/// How wide a text is at the most, or so: fonts differ.
pub(crate) fn width(size: u32, words: &str) -> f64 {
    words.chars().count() as f64 * f64::from(size) * 0.58
}

pub(crate) fn bar(x: f64, y: f64, width: f64, height: f64, colour: &str) -> String {
    format!(
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>\n"
    )
}

pub(crate) fn line(from: (f64, f64), to: (f64, f64), colour: &str, width: f64) -> String {
    let ((x1, y1), (x2, y2)) = (from, to);
    format!(
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\" \
         stroke-width=\"{width}\"/>\n"
    )
}

/// Colours and what they stand for, in one row.
pub(crate) fn legend(mut x: f64, y: f64, entries: &[(&str, &str)]) -> String {
    let mut body = String::new();
    for (colour, words) in entries {
        body += &bar(x, y - 10.0, 12.0, 12.0, colour);
        body += &text(x + 18.0, y, Anchor::Start, 13, words);
        x += 18.0 + width(13, words) + 16.0;
    }
    body
}

/// A logarithmic scale from left to right.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    left: f64,
    right: f64,
    /// Powers of ten.
    lowest: f64,
    highest: f64,
}

impl Scale {
    /// From the power of ten below all `values` to the largest of them, and over one power at least.
    pub(crate) fn over(left: f64, right: f64, values: impl IntoIterator<Item = f64>) -> Scale {
        let powers = values.into_iter().map(power_of_ten);
        let (lowest, highest) = powers.fold((f64::MAX, f64::MIN), |(lowest, highest), power| {
            (power.min(lowest), power.max(highest))
        });
        let lowest = lowest.min(highest).floor();
        Scale {
            left,
            right,
            lowest,
            highest: highest.max(lowest + 1.0),
        }
    }

    pub(crate) fn position(&self, value: f64) -> f64 {
        let part = (power_of_ten(value) - self.lowest) / (self.highest - self.lowest);
        self.left + (self.right - self.left) * part.clamp(0.0, 1.0)
    }

    /// A line at each power of ten, with its name above.
    pub(crate) fn grid(&self, top: f64, bottom: f64, name: impl Fn(i32) -> String) -> String {
        let mut body = String::new();
        for power in self.lowest as i32..=self.highest as i32 {
            let x = self.position(10_f64.powi(power));
            body += &line((x, top), (x, bottom), GRID, 1.0);
            body += &text(x, top - 6.0, Anchor::Middle, 11, &name(power));
        }
        body
    }
}

fn power_of_ten(value: f64) -> f64 {
    value.max(f64::MIN_POSITIVE).log10()
}

/// The output of a program, as a terminal shows it.
pub(crate) fn terminal(width: f64, height: f64, printed: &str) -> String {
    let mut body = format!(
        "<rect width=\"{width:.0}\" height=\"{height:.0}\" rx=\"6\" fill=\"#1d2126\"/>\n\
         <g font-family=\"ui-monospace, monospace\" font-size=\"12\" fill=\"#d4d7db\" xml:space=\"preserve\">\n"
    );
    for (row, words) in printed.lines().enumerate() {
        // Without an empty line; see `picture`.
        if !words.is_empty() {
            let y = TERMINAL_LINE * (row + 2) as f64;
            let words = escaped(words);
            let _ = writeln!(body, "<text x=\"16\" y=\"{y:.0}\">{words}</text>");
        }
    }
    body + "</g>\n"
}

/// From one line of a terminal to the next.
pub(crate) const TERMINAL_LINE: f64 = 16.0;

/// Lines of small text, one below the other.
pub(crate) fn lines(x: f64, mut y: f64, words: &str) -> String {
    let mut body = String::new();
    for words in words.lines() {
        body += &text(x, y, Anchor::Start, 10, words);
        y += 13.0;
    }
    body
}

/// A power of ten as a number.
pub(crate) fn number(power: i32) -> String {
    grouped(10_f64.powi(power))
}

fn escaped(words: &str) -> String {
    let mut text = String::new();
    for character in words.chars() {
        let _ = match character {
            '&' => write!(text, "&amp;"),
            '<' => write!(text, "&lt;"),
            '>' => write!(text, "&gt;"),
            other => write!(text, "{other}"),
        };
    }
    text
}
