//! Commands on hashes.

use super::context::Context;
use super::number::{self, check_integer};
use super::reply::{Outcome, Reply};
use super::value::Hash;

pub fn hget(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let hash = context.read::<Hash>(words[1])?;
    Ok(Reply::maybe(
        hash.and_then(|hash| hash.get(words[2])).cloned(),
    ))
}

pub fn hmget(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let hash = context.read::<Hash>(words[1])?;
    let value = |field: &&[u8]| Reply::maybe(hash.and_then(|hash| hash.get(field)).cloned());
    Ok(Reply::Array(words[2..].iter().map(value).collect()))
}

pub fn hgetall(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let hash = context.read::<Hash>(words[1])?;
    let all = hash.into_iter().flat_map(Hash::iter);
    Ok(Reply::array(
        all.flat_map(|(field, value)| [field.clone(), value.clone()]),
    ))
}

pub fn hkeys(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let hash = context.read::<Hash>(words[1])?;
    Ok(Reply::array(
        hash.into_iter()
            .flat_map(Hash::iter)
            .map(|(field, _)| field.clone()),
    ))
}

pub fn hlen(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    Ok(Reply::count(
        context.read::<Hash>(words[1])?.map_or(0, Hash::len),
    ))
}

pub fn hexists(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let hash = context.read::<Hash>(words[1])?;
    Ok(Reply::flag(
        hash.is_some_and(|hash| hash.get(words[2]).is_some()),
    ))
}

pub fn hstrlen(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let hash = context.read::<Hash>(words[1])?;
    Ok(Reply::count(
        hash.and_then(|hash| hash.get(words[2])).map_or(0, Vec::len),
    ))
}

/// Sets pairs of fields and values; how many fields are new.
fn set_all(
    context: &mut Context<'_>,
    words: &[&[u8]],
    name: &str,
) -> Result<usize, super::reply::Refusal> {
    if !words.len().is_multiple_of(2) {
        return Err(format!("ERR wrong number of arguments for '{name}' command").into());
    }
    context.change(words[1], |hash: &mut Hash| {
        words[2..]
            .chunks(2)
            .filter(|pair| hash.set(pair[0], pair[1].to_vec()))
            .count()
    })
}

pub fn hset(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    set_all(context, words, "hset").map(Reply::count)
}

pub fn hdel(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    context
        .change(words[1], |hash: &mut Hash| {
            words[2..].iter().filter(|field| hash.remove(field)).count()
        })
        .map(Reply::count)
}

pub fn hincrby(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let amount = check_integer(words[3])?;
    let hash = context.read::<Hash>(words[1])?;
    let old = match hash.and_then(|hash| hash.get(words[2])) {
        None => 0,
        Some(text) => number::integer(text).ok_or("ERR hash value is not an integer")?,
    };
    let sum = old
        .checked_add(amount)
        .ok_or("ERR increment or decrement would overflow")?;
    context.change(words[1], |hash: &mut Hash| {
        hash.set(words[2], sum.to_string().into_bytes())
    })?;
    Ok(Reply::Int(sum))
}
