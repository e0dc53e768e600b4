//! Commands on sets.

use super::context::Context;
use super::reply::{Outcome, Reply};
use super::value::Set;

pub fn sadd(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    context
        .change(words[1], |set: &mut Set| {
            words[2..]
                .iter()
                .filter(|member| set.insert(member.to_vec()))
                .count()
        })
        .map(Reply::count)
}

pub fn srem(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    context
        .change(words[1], |set: &mut Set| {
            words[2..]
                .iter()
                .filter(|member| set.remove(**member))
                .count()
        })
        .map(Reply::count)
}

pub fn scard(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    Ok(Reply::count(
        context.read::<Set>(words[1])?.map_or(0, Set::len),
    ))
}

pub fn sismember(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let set = context.read::<Set>(words[1])?;
    Ok(Reply::flag(set.is_some_and(|set| set.contains(words[2]))))
}

/// All at once.
pub fn sscan(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let set = context.read::<Set>(words[1])?;
    let all = Reply::array(set.into_iter().flatten().cloned());
    Ok(Reply::Array(vec![Reply::bulk("0"), all]))
}

pub fn smembers(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let set = context.read::<Set>(words[1])?;
    Ok(Reply::array(set.into_iter().flatten().cloned()))
}
