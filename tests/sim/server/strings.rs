//! Commands on strings.

use super::context::Context;
use super::expiry::{self, Unit};
use super::number::{self, check_integer};
use super::reply::{NOT_AN_INTEGER, Outcome, Reply, SYNTAX};
use super::value::{Text, Value};

pub fn get(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    Ok(Reply::maybe(context.read::<Text>(words[1])?.cloned()))
}

#[derive(Default)]
struct SetOptions {
    only_new: bool,
    only_old: bool,
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
    let exists = context.touch(key);
    if options.only_new && exists || options.only_old && !exists {
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

fn set_options(
    context: &Context<'_>,
    words: &[&[u8]],
) -> Result<SetOptions, super::reply::Refusal> {
    let mut options = SetOptions::default();
    let mut expiry: Option<(Unit, &[u8])> = None;
    let mut rest = words[3..].iter();
    while let Some(word) = rest.next() {
        let free = expiry.is_none() && !options.keep_ttl;
        let unit = match word.to_ascii_lowercase().as_slice() {
            b"nx" if !options.only_old => {
                options.only_new = true;
                continue;
            }
            b"xx" if !options.only_new => {
                options.only_old = true;
                continue;
            }
            b"get" => {
                options.get = true;
                continue;
            }
            b"keepttl" if expiry.is_none() => {
                options.keep_ttl = true;
                continue;
            }
            b"ex" if free => Unit::Seconds,
            b"px" if free => Unit::Millis,
            b"exat" if free => Unit::UnixSeconds,
            b"pxat" if free => Unit::UnixMillis,
            _ => return Err(SYNTAX.into()),
        };
        expiry = Some((unit, rest.next().ok_or(SYNTAX)?));
    }
    if let Some((unit, number)) = expiry {
        options.expires = Some(expiry::positive_end(context, unit, number, "set")?);
    }
    Ok(options)
}

fn set_with_end(context: &mut Context<'_>, words: &[&[u8]], unit: Unit, name: &str) -> Outcome {
    let expires = expiry::positive_end(context, unit, words[2], name)?;
    context.write(words[1], Value::Text(words[3].to_vec()), Some(expires));
    Ok(Reply::ok())
}

pub fn setex(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    set_with_end(context, words, Unit::Seconds, "setex")
}

pub fn psetex(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    set_with_end(context, words, Unit::Millis, "psetex")
}

pub fn setnx(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let free = !context.touch(words[1]);
    if free {
        context.write(words[1], Value::Text(words[2].to_vec()), None);
    }
    Ok(Reply::flag(free))
}

pub fn get_set(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let old = context.read::<Text>(words[1])?.cloned();
    context.write(words[1], Value::Text(words[2].to_vec()), None);
    Ok(Reply::maybe(old))
}

pub fn get_del(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let old = context.read::<Text>(words[1])?.cloned();
    context.remove(words[1]);
    Ok(Reply::maybe(old))
}

pub fn mget(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    // A key of another type is none to it.
    let values = words[1..].iter().map(|key| match context.value(key) {
        Some(Value::Text(text)) => Reply::bulk(text.clone()),
        _ => Reply::Nil,
    });
    Ok(Reply::Array(values.collect()))
}

pub fn mset(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    if words.len().is_multiple_of(2) {
        return Err("ERR wrong number of arguments for 'mset' command".into());
    }
    for pair in words[1..].chunks(2) {
        context.write(pair[0], Value::Text(pair[1].to_vec()), None);
    }
    Ok(Reply::ok())
}

pub fn append(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let (key, more) = (words[1], words[2]);
    let Some(old) = context.read::<Text>(key)? else {
        context.write(key, Value::Text(more.to_vec()), None);
        return Ok(Reply::count(more.len()));
    };
    let text = [old, more].concat();
    let length = text.len();
    let expires = context.expires(key);
    context.write(key, Value::Text(text), expires);
    context.unshare(key);
    Ok(Reply::count(length))
}

pub fn strlen(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    Ok(Reply::count(
        context.read::<Text>(words[1])?.map_or(0, Vec::len),
    ))
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
