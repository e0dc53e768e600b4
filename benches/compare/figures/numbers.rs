//! How numbers are written.

/// Three digits.
pub(crate) fn precise(value: f64) -> String {
    match value {
        ..0.995 => format!("{value:.3}"),
        ..9.995 => format!("{value:.2}"),
        ..99.95 => format!("{value:.1}"),
        _ => grouped(value),
    }
}

/// A whole number with commas.
pub(crate) fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Microseconds, in the unit that fits.
pub(crate) fn micros(value: f64) -> String {
    match value {
        ..1000.0 => format!("{value:.0} µs"),
        ..1e6 => format!("{} ms", short(value / 1e3)),
        _ => format!("{} s", short(value / 1e6)),
    }
}

/// Three digits at the most.
fn short(value: f64) -> String {
    let text = precise(value);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

pub(crate) fn percent(value: f64) -> String {
    format!("{:.0} %", value * 100.0)
}
