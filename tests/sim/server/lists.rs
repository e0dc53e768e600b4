//! Commands on lists.

use super::context::Context;
use super::number::check_integer;
use super::reply::{Outcome, Reply};
use super::value::List;

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Left,
    Right,
}

fn push(context: &mut Context<'_>, words: &[&[u8]], end: End) -> Outcome {
    let length = context.change(words[1], |list: &mut List| {
        for word in &words[2..] {
            match end {
                End::Left => list.push_front(word.to_vec()),
                End::Right => list.push_back(word.to_vec()),
            }
        }
        list.len()
    })?;
    Ok(Reply::count(length))
}

/// Without a count.
fn pop(context: &mut Context<'_>, words: &[&[u8]], end: End) -> Outcome {
    let item = context.change(words[1], |list: &mut List| match end {
        End::Left => list.pop_front(),
        End::Right => list.pop_back(),
    })?;
    Ok(Reply::maybe(item))
}

pub fn lpush(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    push(context, words, End::Left)
}

pub fn rpush(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    push(context, words, End::Right)
}

pub fn lpop(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    pop(context, words, End::Left)
}

pub fn rpop(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    pop(context, words, End::Right)
}

pub fn llen(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    Ok(Reply::count(
        context.read::<List>(words[1])?.map_or(0, List::len),
    ))
}

/// The places from `start` to `stop` of so many, where those below zero count from the end.
pub fn places(start: i64, stop: i64, length: usize) -> std::ops::Range<usize> {
    let length = i64::try_from(length).expect("fits in memory");
    let from_end = |place: i64| {
        if place < 0 {
            place.saturating_add(length)
        } else {
            place
        }
    };
    let start = from_end(start).max(0);
    let stop = from_end(stop).min(length - 1);
    if start > stop {
        return 0..0;
    }
    let place = |place: i64| usize::try_from(place).expect("within the list");
    place(start)..place(stop) + 1
}

pub fn lrange(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let (start, stop) = (check_integer(words[2])?, check_integer(words[3])?);
    Ok(match context.read::<List>(words[1])? {
        None => Reply::Array(Vec::new()),
        Some(list) => Reply::array(list.range(places(start, stop, list.len())).cloned()),
    })
}

pub fn lindex(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    // Whether it is a list comes first.
    let Some(list) = context.read::<List>(words[1])? else {
        return Ok(Reply::Nil);
    };
    let place = check_integer(words[2])?;
    let range = places(place, place, list.len());
    Ok(Reply::maybe(list.range(range).next().cloned()))
}

/// `LINSERT` puts an item beside the first one that equals the pivot.
pub fn linsert(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let behind = match &words[2].to_ascii_lowercase()[..] {
        b"before" => 0,
        b"after" => 1,
        _ => return Err("ERR syntax error".into()),
    };
    if context.read::<List>(words[1])?.is_none() {
        return Ok(Reply::Int(0));
    }
    context.change(words[1], |list: &mut List| {
        let Some(place) = list.iter().position(|item| item == words[3]) else {
            return Reply::Int(-1);
        };
        list.insert(place + behind, words[4].to_vec());
        Reply::count(list.len())
    })
}

/// Without options.
pub fn lpos(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    if words.len() > 3 {
        return Err("ERR syntax error".into());
    }
    let list = context.read::<List>(words[1])?;
    let place = list.and_then(|list| list.iter().position(|item| item == words[2]));
    Ok(place.map_or(Reply::Nil, Reply::count))
}

pub fn lrem(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let count = check_integer(words[2])?;
    if context.read::<List>(words[1])?.is_none() {
        return Ok(Reply::Int(0));
    }
    let most = match count {
        0 => usize::MAX,
        _ => usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX),
    };
    let removed = context.change(words[1], |list: &mut List| {
        let all = list.iter().enumerate();
        let mut places: Vec<usize> = all
            .filter(|(_, item)| *item == words[3])
            .map(|(place, _)| place)
            .collect();
        if count < 0 {
            places.drain(..places.len().saturating_sub(most));
        }
        places.truncate(most);
        for place in places.iter().rev() {
            list.remove(*place);
        }
        places.len()
    })?;
    Ok(Reply::count(removed))
}
