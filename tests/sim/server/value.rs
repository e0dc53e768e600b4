//! The values that a key can hold.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub type Bytes = Vec<u8>;
pub type Text = Bytes;
pub type List = VecDeque<Bytes>;
/// In the order of the bytes. A real set has no meaningful order, unless it has few members that are all integers.
pub type Set = BTreeSet<Bytes>;

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Text(Text),
    List(List),
    Set(Set),
    Hash(Hash),
    Zset(Zset),
}

impl Value {
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Text(_) => "string",
            Value::List(_) => "list",
            Value::Set(_) => "set",
            Value::Hash(_) => "hash",
            Value::Zset(_) => "zset",
        }
    }
}

/// One of the types of a value, so that the code about keys is written once for all of them.
pub trait Kind: Default + Sized {
    fn of(value: &Value) -> Option<&Self>;
    fn of_mut(value: &mut Value) -> Option<&mut Self>;
    fn wrap(self) -> Value;
    /// Whether the value is gone: a collection without elements is no key.
    fn is_gone(&self) -> bool;
}

macro_rules! kind {
    ($type:ty, $variant:ident, $gone:expr) => {
        impl Kind for $type {
            fn of(value: &Value) -> Option<&Self> {
                match value {
                    Value::$variant(it) => Some(it),
                    _ => None,
                }
            }
            fn of_mut(value: &mut Value) -> Option<&mut Self> {
                match value {
                    Value::$variant(it) => Some(it),
                    _ => None,
                }
            }
            fn wrap(self) -> Value {
                Value::$variant(self)
            }
            fn is_gone(&self) -> bool {
                let gone: fn(&Self) -> bool = $gone;
                gone(self)
            }
        }
    };
}

kind!(Text, Text, |_| false);
kind!(List, List, List::is_empty);
kind!(Set, Set, Set::is_empty);
kind!(Hash, Hash, |hash| hash.len() == 0);
kind!(Zset, Zset, |zset| zset.len() == 0);

/// A hash. Its fields come in the order in which they were first set, as in a listpack.
#[derive(Debug, Clone, Default)]
pub struct Hash {
    fields: BTreeMap<Bytes, (u64, Bytes)>,
    next: u64,
}

impl Hash {
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    pub fn get(&self, field: &[u8]) -> Option<&Bytes> {
        self.fields.get(field).map(|(_, value)| value)
    }

    /// Sets a field. Returns whether it is new.
    pub fn set(&mut self, field: &[u8], value: Bytes) -> bool {
        if let Some((_, old)) = self.fields.get_mut(field) {
            *old = value;
            return false;
        }
        self.fields.insert(field.to_vec(), (self.next, value));
        self.next += 1;
        true
    }

    pub fn remove(&mut self, field: &[u8]) -> bool {
        self.fields.remove(field).is_some()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        let mut all: Vec<_> = self.fields.iter().collect();
        all.sort_unstable_by_key(|(_, (place, _))| *place);
        all.into_iter().map(|(field, (_, value))| (field, value))
    }
}

impl PartialEq for Hash {
    fn eq(&self, other: &Hash) -> bool {
        self.iter().eq(other.iter())
    }
}

/// A sorted set: by score, then by member.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Zset {
    scores: BTreeMap<Bytes, f64>,
    order: BTreeSet<(Score, Bytes)>,
}

/// A score: never NaN.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score(pub f64);

impl Eq for Score {}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Score) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Score) -> Ordering {
        self.0.partial_cmp(&other.0).expect("no score is NaN")
    }
}

impl Zset {
    pub fn len(&self) -> usize {
        self.scores.len()
    }

    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).copied()
    }

    pub fn set(&mut self, member: &[u8], score: f64) {
        if let Some(old) = self.scores.insert(member.to_vec(), score) {
            self.order.remove(&(Score(old), member.to_vec()));
        }
        self.order.insert((Score(score), member.to_vec()));
    }

    pub fn remove(&mut self, member: &[u8]) -> bool {
        match self.scores.remove(member) {
            Some(score) => self.order.remove(&(Score(score), member.to_vec())),
            None => false,
        }
    }

    /// From the lowest score to the highest.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Bytes, f64)> {
        self.order.iter().map(|(score, member)| (member, score.0))
    }
}
