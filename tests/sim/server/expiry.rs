//! When keys expire.

use super::command::printed;
use super::context::Context;
use super::number::check_integer;
use super::reply::{Outcome, Refusal, Reply};

fn invalid(name: &str) -> Refusal {
    format!("ERR invalid expire time in '{name}' command").into()
}

/// The end that `SET` is given: no time to live is less than one.
pub fn positive_end(context: &Context<'_>, text: &[u8], name: &str) -> Result<i64, Refusal> {
    let millis = check_integer(text)?;
    if millis <= 0 {
        return Err(invalid(name));
    }
    let end = millis.checked_add(context.core.millis());
    end.ok_or_else(|| invalid(name))
}

#[derive(Default)]
struct Conditions {
    none: bool,
    some: bool,
    later: bool,
    earlier: bool,
}

impl Conditions {
    fn read(words: &[&[u8]]) -> Result<Self, Refusal> {
        let mut these = Conditions::default();
        for word in words {
            match word.to_ascii_lowercase().as_slice() {
                b"nx" => these.none = true,
                b"xx" => these.some = true,
                b"gt" => these.later = true,
                b"lt" => these.earlier = true,
                _ => {
                    let mut text = b"ERR Unsupported option ".to_vec();
                    text.extend_from_slice(printed(word));
                    return Err(Refusal(text));
                }
            }
        }
        if these.none && (these.some || these.later || these.earlier) {
            return Err(
                "ERR NX and XX, GT or LT options at the same time are not compatible".into(),
            );
        }
        if these.later && these.earlier {
            return Err("ERR GT and LT options at the same time are not compatible".into());
        }
        Ok(these)
    }

    /// No end counts as the latest.
    fn allow(&self, old: Option<i64>, new: i64) -> bool {
        !(self.none && old.is_some()
            || self.some && old.is_none()
            || self.later && old.is_none_or(|old| new <= old)
            || self.earlier && old.is_some_and(|old| new >= old))
    }
}

pub fn pexpire(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let conditions = Conditions::read(&words[3..])?;
    let end = check_integer(words[2])?.checked_add(context.core.millis());
    let end = end.ok_or_else(|| invalid("pexpire"))?;
    let key = words[1];
    if !context.has(key) || !conditions.allow(context.expires(key), end) {
        return Ok(Reply::Int(0));
    }
    if end <= context.core.millis() && !context.core.faults.replica {
        context.remove(key);
    } else if let Some(entry) = context.core.keys.get_mut(key) {
        entry.expires = Some(end);
    }
    Ok(Reply::Int(1))
}

pub fn persist(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let ends = context.has(words[1]) && context.expires(words[1]).is_some();
    if ends && let Some(entry) = context.core.keys.get_mut(words[1]) {
        entry.expires = None;
    }
    Ok(Reply::flag(ends))
}

/// The end of a key in milliseconds; -1: none, -2: no key.
fn look(context: &mut Context<'_>, words: &[&[u8]], show: impl FnOnce(i64, i64) -> i64) -> Outcome {
    let now = context.core.millis();
    Ok(Reply::Int(
        match context.peek(words[1]).map(|entry| entry.expires) {
            None => -2,
            Some(None) => -1,
            Some(Some(end)) => show(end, now),
        },
    ))
}

pub fn pttl(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    look(context, words, |end, now| (end - now).max(0))
}

pub fn pexpire_time(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    look(context, words, |end, _| end)
}
