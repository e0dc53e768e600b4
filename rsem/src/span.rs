//! Times as people type them: `30s`, `500ms`, `1.5m`; a number alone is seconds, as for `flock -w` and `sleep`.

use std::time::Duration;

const UNITS: [(&str, f64); 6] = [
    // The longer ones first: `ms` ends with `s`, too.
    ("ms", 0.001),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3_600.0),
    ("d", 86_400.0),
    ("", 1.0),
];

pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let (number, unit) = UNITS
        .iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)))
        .expect("everything ends with nothing");
    let plain = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c == '.');
    number
        .parse::<f64>()
        .ok()
        .filter(|_| plain)
        .and_then(|number| Duration::try_from_secs_f64(number * unit).ok())
        .ok_or_else(|| "expected a time such as 30s, 500ms, 2m, 1h, or 30 for 30 s".to_owned())
}

/// In one unit, to be read at a glance.
pub(crate) fn show(span: Duration) -> String {
    match span.as_secs() {
        0 => format!("{} ms", span.as_millis()),
        1..60 => format!("{:.1} s", span.as_secs_f64()),
        60..7_200 => format!("{} min", span.as_secs() / 60),
        7_200..172_800 => format!("{} h", span.as_secs() / 3_600),
        _ => format!("{} days", span.as_secs() / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        for (text, millis) in [
            ("30s", 30_000),
            ("30", 30_000),
            ("0", 0),
            ("500ms", 500),
            ("1.5m", 90_000),
            (".5s", 500),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            "s",
            "-1",
            "1e3",
            "1 s",
            "x",
            "inf",
            "NaN",
            "1.2.3s",
            "9999999999999999999999d",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
