//! Commands on hashes.

use super::context::Context;

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
