//! Commands on sorted sets, but for ranges.

use super::context::Context;
use super::number::{self, check_float};
use super::reply::{Outcome, Refusal, Reply, SYNTAX};
use super::value::Zset;

#[derive(Default)]
struct AddOptions {
    only_new: bool,
    only_old: bool,
    greater: bool,
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
                _ => return (options, count),
            }
        }
        (options, words.len())
    }

    fn check(&self) -> Result<(), Refusal> {
        if self.only_new && self.only_old {
            return Err("ERR XX and NX options at the same time are not compatible".into());
        }
        if self.only_new && self.greater {
            return Err("ERR GT, LT, and/or NX options at the same time are not compatible".into());
        }
        Ok(())
    }

    /// Whether a member that had the `old` score is given the `new` one.
    fn allow(&self, old: Option<f64>, new: f64) -> bool {
        match old {
            None => !self.only_old,
            Some(old) => !(self.only_new || self.greater && new <= old),
        }
    }
}

/// With the options that the crate sends.
pub fn zadd(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let (options, used) = AddOptions::read(&words[2..]);
    let pairs = &words[2 + used..];
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return Err(SYNTAX.into());
    }
    options.check()?;
    let mut elements = Vec::with_capacity(pairs.len() / 2);
    for pair in pairs.chunks(2) {
        elements.push((pair[1], check_float(pair[0])?));
    }
    let added = context.change(words[1], |zset: &mut Zset| {
        let mut added = 0;
        for (member, score) in elements {
            let old = zset.score(member);
            if options.allow(old, score) {
                zset.set(member, score);
                added += i64::from(old.is_none());
            }
        }
        added
    })?;
    Ok(Reply::Int(added))
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
