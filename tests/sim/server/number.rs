//! Numbers as Redis and C read and write them.

use super::reply::{NOT_A_FLOAT, NOT_AN_INTEGER, Refusal};

/// An integer, if `text` is exactly what Redis would write for one: no sign but a minus, no leading zero, no space.
pub fn integer(text: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == text).then_some(number)
}

/// The same, or the usual error.
pub fn check_integer(text: &[u8]) -> Result<i64, Refusal> {
    integer(text).ok_or_else(|| NOT_AN_INTEGER.into())
}

/// A score: what `strtod` takes to its last character, without leading space, that is neither NaN nor out of range.
pub fn check_float(text: &[u8]) -> Result<f64, Refusal> {
    let refused = || Refusal::from(NOT_A_FLOAT);
    let (number, exact) = strtod(text).ok_or_else(refused)?;
    if number.is_nan() || !exact {
        return Err(refused());
    }
    // No listpack keeps the sign of zero.
    Ok(number + 0.0)
}

/// One end of a range of scores: a number that may be excluded (`(1`). Nothing at all is zero.
pub fn bound(text: &[u8]) -> Result<(f64, bool), Refusal> {
    let (text, excluded) = match text.strip_prefix(b"(") {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let text = text.trim_ascii_start();
    let number = if text.is_empty() {
        Some(0.0)
    } else {
        strtod(text).map(|(number, _)| number)
    };
    match number {
        Some(number) if !number.is_nan() => Ok((number, excluded)),
        _ => Err("ERR min or max is not a float".into()),
    }
}

/// A number, and whether it is within the range of a double.
fn strtod(text: &[u8]) -> Option<(f64, bool)> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = text.trim_start_matches(['+', '-']);
    if text.len() - digits.len() > 1 {
        return None;
    }
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    if let Some(hex) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        // No fractions and exponents: nobody writes those.
        let number = u64::from_str_radix(hex, 16)
            .ok()
            .filter(|_| !hex.starts_with('+'))?;
        return Some((sign * number as f64, true));
    }
    let number: f64 = digits.parse().ok()?;
    let spelled = digits.starts_with(['i', 'I', 'n', 'N']);
    let mantissa = digits.split(['e', 'E']).next().unwrap_or_default();
    let vanished = number == 0.0 && mantissa.contains(|c: char| ('1'..='9').contains(&c));
    Some((sign * number, spelled || number.is_finite() && !vanished))
}

/// A double as `%.17g` prints it.
pub fn text(number: f64) -> String {
    const DIGITS: i32 = 17;
    if number.is_nan() {
        return if number.is_sign_negative() {
            "-nan"
        } else {
            "nan"
        }
        .to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{number:.*e}", DIGITS as usize - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("scientific notation");
    let exponent: i32 = exponent.parse().expect("an exponent");
    if (-4..DIGITS).contains(&exponent) {
        let places = usize::try_from(DIGITS - 1 - exponent).expect("not negative");
        return without_zeros(&format!("{number:.places$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs())
}

fn without_zeros(digits: &str) -> &str {
    if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    }
}

/// A double as an integer, as the processor converts it: what does not fit becomes the lowest.
pub fn truncated(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) {
        number as i64
    } else {
        i64::MIN
    }
}
