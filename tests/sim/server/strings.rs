//! Commands on strings.

use super::context::Context;
use super::expiry;
use super::number::{self, check_integer};
use super::reply::{NOT_AN_INTEGER, Outcome, Reply, SYNTAX};
use super::value::{Text, Value};

pub fn get(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    Ok(Reply::maybe(context.read::<Text>(words[1])?.cloned()))
}

#[derive(Default)]
struct SetOptions {
    only_new: bool,
    get: bool,
    keep_ttl: bool,
    expires: Option<i64>,
}

pub fn set(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let (key, value) = (words[1], words[2]);
    let options = set_options(context, words)?;
    // GET wants a string, and says so before anything else.
    let old = if options.get {
        Some(Reply::maybe(context.read::<Text>(key)?.cloned()))
    } else {
        None
    };
    let exists = context.has(key);
    if options.only_new && exists {
        return Ok(old.unwrap_or(Reply::Nil));
    }
    let expires = if options.keep_ttl {
        context.expires(key)
    } else {
        options.expires
    };
    context.write(key, Value::Text(value.to_vec()), expires);
    Ok(old.unwrap_or_else(Reply::ok))
}

/// Of those that there are only the ones that the crate sends.
fn set_options(
    context: &Context<'_>,
    words: &[&[u8]],
) -> Result<SetOptions, super::reply::Refusal> {
    let mut options = SetOptions::default();
    let mut millis = None;
    let mut rest = words[3..].iter();
    while let Some(word) = rest.next() {
        match word.to_ascii_lowercase().as_slice() {
            b"nx" => options.only_new = true,
            b"get" => options.get = true,
            b"keepttl" if millis.is_none() => options.keep_ttl = true,
            b"px" if millis.is_none() && !options.keep_ttl => {
                millis = Some(rest.next().ok_or(SYNTAX)?);
            }
            _ => return Err(SYNTAX.into()),
        }
    }
    if let Some(millis) = millis {
        options.expires = Some(expiry::positive_end(context, millis, "set")?);
    }
    Ok(options)
}

pub fn mget(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    // A key of another type is none to it.
    let values = words[1..].iter().map(|key| {
        let text = context.read::<Text>(key).ok().flatten();
        Reply::maybe(text.cloned())
    });
    Ok(Reply::Array(values.collect()))
}

pub fn incr(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    add(context, words[1], 1)
}

pub fn decr(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    add(context, words[1], -1)
}

pub fn incr_by(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    add(context, words[1], check_integer(words[2])?)
}

pub fn decr_by(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let amount = check_integer(words[2])?;
    add(
        context,
        words[1],
        amount.checked_neg().ok_or("ERR decrement would overflow")?,
    )
}

fn add(context: &mut Context<'_>, key: &[u8], amount: i64) -> Outcome {
    let old = match context.read::<Text>(key)? {
        None => 0,
        Some(text) => number::integer(text).ok_or(NOT_AN_INTEGER)?,
    };
    let sum = old
        .checked_add(amount)
        .ok_or("ERR increment or decrement would overflow")?;
    let expires = context.expires(key);
    context.write(key, Value::Text(sum.to_string().into_bytes()), expires);
    Ok(Reply::Int(sum))
}
