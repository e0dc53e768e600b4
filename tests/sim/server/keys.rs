//! Commands on keys of any type.

use super::context::Context;
use super::glob;
use super::reply::{NO_SUCH_KEY, Outcome, Reply};

pub fn del(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    Ok(Reply::count(
        words[1..].iter().filter(|key| context.remove(key)).count(),
    ))
}

pub fn exists(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    Ok(Reply::count(
        words[1..]
            .iter()
            .filter(|key| context.peek(key).is_some())
            .count(),
    ))
}

pub fn type_of(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let name = context
        .peek(words[1])
        .map_or("none", |entry| entry.value.type_name());
    Ok(Reply::status(name))
}

/// Renames `from` to `to`. Returns `None` if `to` exists and may not be replaced.
fn move_to(
    context: &mut Context<'_>,
    from: &[u8],
    to: &[u8],
    replace: bool,
) -> Result<Option<()>, super::reply::Refusal> {
    if !context.has(from) {
        return Err(NO_SUCH_KEY.into());
    }
    if from == to {
        return Ok(replace.then_some(()));
    }
    if context.has(to) && !replace {
        return Ok(None);
    }
    let entry = context.core.keys.remove(from).expect("seen above");
    context.core.keys.insert(to, entry);
    Ok(Some(()))
}

pub fn rename(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    move_to(context, words[1], words[2], true).map(|_| Reply::ok())
}

pub fn rename_nx(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    move_to(context, words[1], words[2], false).map(|done| Reply::flag(done.is_some()))
}

pub fn keys(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    // Expired keys are not shown, but left.
    let now = context.core.millis();
    let all = context.core.keys.iter();
    let live = all.filter(|(_, entry)| entry.expires.is_none_or(|end| now <= end));
    let found = live
        .map(|(key, _)| key)
        .filter(|key| glob::matches(words[1], key));
    Ok(Reply::array(found.cloned()))
}
