//! Ranges of sorted sets, by place and by score.

use super::context::Context;
use super::lists::places;
use super::number::{self, check_integer};
use super::reply::{Outcome, Refusal, Reply, SYNTAX};
use super::value::{Bytes, Zset};

/// A range of scores.
struct Scores {
    from: (f64, bool),
    to: (f64, bool),
}

impl Scores {
    fn read(from: &[u8], to: &[u8]) -> Result<Self, Refusal> {
        Ok(Scores {
            from: number::bound(from)?,
            to: number::bound(to)?,
        })
    }

    fn contain(&self, score: f64) -> bool {
        let (from, after) = self.from;
        let (to, before) = self.to;
        (if after { score > from } else { score >= from })
            && (if before { score < to } else { score <= to })
    }
}

/// The options of a range.
#[derive(Default)]
struct Range {
    by_score: bool,
    backwards: bool,
    with_scores: bool,
    limit: Option<(i64, i64)>,
}

impl Range {
    /// Reads the options after the two ends.
    fn read(mut self, words: &[&[u8]]) -> Result<Self, Refusal> {
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            match word.to_ascii_lowercase().as_slice() {
                b"withscores" => self.with_scores = true,
                b"limit" => {
                    let (Some(offset), Some(count)) = (rest.next(), rest.next()) else {
                        return Err(SYNTAX.into());
                    };
                    self.limit = Some((check_integer(offset)?, check_integer(count)?));
                }
                _ => return Err(SYNTAX.into()),
            }
        }
        // A limit of -1 is no limit.
        if self.limit.is_some_and(|(_, count)| count != -1) && !self.by_score {
            return Err("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX".into());
        }
        Ok(self)
    }

    fn answer(&self, context: &mut Context<'_>, key: &[u8], ends: (&[u8], &[u8])) -> Outcome {
        let found: Vec<(Bytes, f64)> = if self.by_score {
            let (from, to) = if self.backwards {
                (ends.1, ends.0)
            } else {
                ends
            };
            let scores = Scores::read(from, to)?;
            let (offset, count) = self.limit.unwrap_or((0, -1));
            let all = self.ordered(context.read::<Zset>(key)?);
            let inside = all.into_iter().filter(|(_, score)| scores.contain(*score));
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            match usize::try_from(offset) {
                Ok(offset) => inside.skip(offset).take(count).collect(),
                Err(_) => Vec::new(),
            }
        } else {
            let (start, stop) = (check_integer(ends.0)?, check_integer(ends.1)?);
            let all = self.ordered(context.read::<Zset>(key)?);
            let range = places(start, stop, all.len());
            all[range].to_vec()
        };
        let mut answer = Vec::new();
        for (member, score) in found {
            answer.push(Reply::Bulk(member));
            if self.with_scores {
                answer.push(Reply::bulk(number::text(score)));
            }
        }
        Ok(Reply::Array(answer))
    }

    fn ordered(&self, zset: Option<&Zset>) -> Vec<(Bytes, f64)> {
        let mut all: Vec<_> = zset
            .into_iter()
            .flat_map(Zset::iter)
            .map(|(member, score)| (member.clone(), score))
            .collect();
        if self.backwards {
            all.reverse();
        }
        all
    }
}

fn range(context: &mut Context<'_>, words: &[&[u8]], kind: Range) -> Outcome {
    let range = kind.read(&words[4..])?;
    range.answer(context, words[1], (words[2], words[3]))
}

/// A range by place.
pub fn zrange(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    range(context, words, Range::default())
}

pub fn zrangebyscore(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let kind = Range {
        by_score: true,
        ..Range::default()
    };
    range(context, words, kind)
}

pub fn zrevrangebyscore(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let kind = Range {
        by_score: true,
        backwards: true,
        ..Range::default()
    };
    range(context, words, kind)
}

pub fn zcount(context: &mut Context<'_>, words: &[&[u8]]) -> Outcome {
    let scores = Scores::read(words[2], words[3])?;
    let zset = context.read::<Zset>(words[1])?;
    let inside = zset
        .into_iter()
        .flat_map(Zset::iter)
        .filter(|(_, score)| scores.contain(*score));
    Ok(Reply::count(inside.count()))
}
