//! Commands on sorted sets, but for ranges.

use std::collections::BTreeMap;

use super::context::Context;
use super::number::{self, check_float};
use super::reply::{NOT_AN_INTEGER, Outcome, Refusal, Reply, SYNTAX, WRONG_TYPE};
use super::value::{Bytes, Kind, Set, Value, Zset};

#[derive(Default)]
struct AddOptions {
    only_new: bool,
    only_old: bool,
    greater: bool,
    less: bool,
    changed: bool,
    increase: bool,
}

impl AddOptions {
    /// Reads the options; how many words they are.
    fn read(words: &[&[u8]]) -> (Self, usize) {
        let mut options = AddOptions::default();
        for (count, word) in words.iter().enumerate() {
            match word.to_ascii_lowercase().as_slice() {
                b"nx" => options.only_new = true,
                b"xx" => options.only_old = true,
                b"gt" => options.greater = true,
                b"lt" => options.less = true,
                b"ch" => options.changed = true,
                b"incr" => options.increase = true,
                _ => return (options, count),
            }
        }
        (options, words.len())
    }

    fn check(&self, elements: usize) -> Result<(), Refusal> {
        if self.only_new && self.only_old {
            return Err("ERR XX and NX options at the same time are not compatible".into());
        }
        if self.greater && self.less || self.only_new && (self.greater || self.less) {
            return Err("ERR GT, LT, and/or NX options at the same time are not compatible".into());
        }
        if self.increase && elements > 1 {
            return Err("ERR INCR option supports a single increment-element pair".into());
        }
        Ok(())
    }

    /// The new score; `None`: it is left as it is.
    fn score(&self, old: Option<f64>, given: f64) -> Result<Option<f64>, Refusal> {
        let Some(old) = old else {
            return Ok((!self.only_old).then_some(given));
        };
        if self.only_new {
            return Ok(None);
        }
        let new = if self.increase { old + given } else { given };
        if new.is_nan() {
            return Err("ERR resulting score is not a number (NaN)".into());
        }
        Ok((!(self.greater && new <= old || self.less && new >= old)).then_some(new))
    }
}

pub fn zadd(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let (options, used) = AddOptions::read(&words[2..]);
    let pairs = &words[2 + used..];
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return Err(SYNTAX.into());
    }
    options.check(pairs.len() / 2)?;
    let mut elements = Vec::with_capacity(pairs.len() / 2);
    for pair in pairs.chunks(2) {
        elements.push((pair[1], check_float(pair[0])?));
    }
    let (mut added, mut changed, mut last) = (0, 0, None);
    context.change(words[1], |zset: &mut Zset| {
        for (member, given) in elements {
            let old = zset.score(member);
            last = options.score(old, given)?;
            let Some(score) = last else { continue };
            match old {
                None => added += 1,
                Some(old) if old != score => changed += 1,
                Some(_) => continue,
            }
            zset.set(member, score);
        }
        Ok::<_, Refusal>(())
    })??;
    Ok(match (options.increase, options.changed) {
        (true, _) => Reply::maybe(last.map(number::text)),
        (false, true) => Reply::Int(added + changed),
        (false, false) => Reply::Int(added),
    })
}

pub fn zrem(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    context
        .change(words[1], |zset: &mut Zset| {
            words[2..]
                .iter()
                .filter(|member| zset.remove(member))
                .count()
        })
        .map(Reply::count)
}

pub fn zcard(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    Ok(Reply::count(
        context.read::<Zset>(words[1])?.map_or(0, Zset::len),
    ))
}

fn score_of(zset: Option<&Zset>, member: &[u8]) -> Reply {
    Reply::maybe(zset.and_then(|zset| zset.score(member)).map(number::text))
}

pub fn zscore(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    Ok(score_of(context.read::<Zset>(words[1])?, words[2]))
}

pub fn zmscore(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let zset = context.read::<Zset>(words[1])?;
    Ok(Reply::Array(
        words[2..]
            .iter()
            .map(|member| score_of(zset, member))
            .collect(),
    ))
}

/// All at once, in the order of their scores.
pub fn zscan(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let zset = context.read::<Zset>(words[1])?;
    let all = zset.into_iter().flat_map(Zset::iter);
    let pairs = all.flat_map(|(member, score)| {
        let score = number::text(score).into();
        [member.clone(), score]
    });
    Ok(Reply::Array(vec![Reply::bulk("0"), Reply::array(pairs)]))
}

pub fn zrank(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let zset = context.read::<Zset>(words[1])?;
    let place = zset.and_then(|zset| zset.iter().position(|(member, _)| member == words[2]));
    Ok(place.map_or(Reply::Nil, Reply::count))
}

pub fn zrevrank(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let zset = context.read::<Zset>(words[1])?;
    let place = zset.and_then(|zset| zset.iter().rev().position(|(member, _)| member == words[2]));
    Ok(place.map_or(Reply::Nil, Reply::count))
}

/// Some words of a command.
type Words<'a, 'b> = &'b [&'a [u8]];

/// The keys that follow their number, and what comes behind them.
fn counted_keys<'a, 'b>(
    words: Words<'a, 'b>,
    name: &str,
) -> Result<(Words<'a, 'b>, Words<'a, 'b>), Refusal> {
    let count = number::integer(words[0]).ok_or(NOT_AN_INTEGER)?;
    if count < 1 {
        return Err(format!("ERR at least 1 input key is needed for '{name}' command").into());
    }
    let count = usize::try_from(count).expect("positive");
    words[1..]
        .split_at_checked(count)
        .ok_or_else(|| SYNTAX.into())
}

/// The members of a zset or, as if each had the score 1, of a set.
fn members(context: &mut Context<'_>, key: &[u8]) -> Result<Vec<(Bytes, f64)>, Refusal> {
    match context.value(key) {
        None => Ok(Vec::new()),
        Some(value) => match (Zset::of(value), Set::of(value)) {
            (Some(zset), _) => Ok(zset
                .iter()
                .map(|(member, score)| (member.clone(), score))
                .collect()),
            (_, Some(set)) => Ok(set.iter().map(|member| (member.clone(), 1.0)).collect()),
            _ => Err(WRONG_TYPE.into()),
        },
    }
}

/// The keys are looked at before the options.
fn check_types(context: &mut Context<'_>, keys: &[&[u8]]) -> Result<(), Refusal> {
    keys.iter()
        .try_for_each(|key| members(context, key).map(drop))
}

/// The members that all keys have, with the sum of their scores, each times its key's weight.
fn intersection(
    context: &mut Context<'_>,
    keys: &[&[u8]],
    weights: &[f64],
) -> Result<Zset, Refusal> {
    let mut all = Vec::new();
    for (key, weight) in keys.iter().zip(weights) {
        let members: BTreeMap<_, _> = members(context, key)?.into_iter().collect();
        all.push((members, *weight));
    }
    // The order matters where something is no number.
    all.sort_by_key(|(members, _)| members.len());
    let mut all = all.into_iter();
    let (mut common, weight) = all.next().unwrap_or_default();
    for score in common.values_mut() {
        *score = or_zero(*score * weight);
    }
    for (other, weight) in all {
        common.retain(|member, sum| {
            let Some(score) = other.get(member) else {
                return false;
            };
            *sum = or_zero(*sum + score * weight);
            true
        });
    }
    let mut zset = Zset::default();
    for (member, score) in common {
        zset.set(&member, score);
    }
    Ok(zset)
}

fn or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

pub fn zintercard(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let (keys, rest) = counted_keys(&words[1..], "zintercard")?;
    check_types(context, keys)?;
    let mut limit = 0;
    for option in rest.chunks(2) {
        match option {
            [name, text] if name.eq_ignore_ascii_case(b"limit") => {
                let given = number::integer(text).filter(|given| *given >= 0);
                limit = given.ok_or("ERR LIMIT can't be negative")?;
            }
            _ => return Err(SYNTAX.into()),
        }
    }
    let common = intersection(context, keys, &vec![1.0; keys.len()])?.len();
    let limit = usize::try_from(limit).ok().filter(|limit| *limit > 0);
    Ok(Reply::count(common.min(limit.unwrap_or(usize::MAX))))
}

/// Only with the sum of scores, which is what it does unless it is told otherwise.
pub fn zinterstore(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let (keys, rest) = counted_keys(&words[2..], "zinterstore")?;
    check_types(context, keys)?;
    let weights = match rest {
        [] => vec![1.0; keys.len()],
        [name, rest @ ..] if name.eq_ignore_ascii_case(b"weights") && rest.len() >= keys.len() => {
            let (texts, more) = rest.split_at(keys.len());
            let weight = |text: &&[u8]| {
                check_float(text).map_err(|_| Refusal::from("ERR weight value is not a float"))
            };
            let weights = texts.iter().map(weight).collect::<Result<_, _>>()?;
            if !more.is_empty() {
                return Err(SYNTAX.into());
            }
            weights
        }
        _ => return Err(SYNTAX.into()),
    };
    let common = intersection(context, keys, &weights)?;
    let count = common.len();
    if count == 0 {
        context.remove(words[1]);
    } else {
        context.write(words[1], Value::Zset(common), None);
    }
    Ok(Reply::count(count))
}
