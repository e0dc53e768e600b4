//! The meaning of a server's answers.

use std::collections::HashMap;

use redisson_semaphore::Answer;

/// An answer as this type; `None` for another one.
pub(crate) trait Read: Sized {
    fn read(answer: Answer) -> Option<Self>;
}

impl Read for Vec<u8> {
    fn read(answer: Answer) -> Option<Self> {
        match answer {
            Answer::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// Bytes that are not UTF-8 can still be shown.
impl Read for String {
    fn read(answer: Answer) -> Option<Self> {
        let bytes = Vec::<u8>::read(answer)?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Read for i64 {
    fn read(answer: Answer) -> Option<Self> {
        match answer {
            Answer::Int(number) => Some(number),
            Answer::Bytes(bytes) => std::str::from_utf8(&bytes).ok()?.parse().ok(),
            _ => None,
        }
    }
}

impl Read for u64 {
    fn read(answer: Answer) -> Option<Self> {
        i64::read(answer)?.try_into().ok()
    }
}

impl Read for f64 {
    fn read(answer: Answer) -> Option<Self> {
        String::read(answer)?.parse().ok()
    }
}

impl Read for bool {
    fn read(answer: Answer) -> Option<Self> {
        Some(i64::read(answer)? != 0)
    }
}

impl<T: Read> Read for Option<T> {
    fn read(answer: Answer) -> Option<Self> {
        match answer {
            Answer::Nil => Some(None),
            answer => T::read(answer).map(Some),
        }
    }
}

/// Its words, one after the other.
pub(crate) struct List<T>(pub(crate) Vec<T>);

impl<T: Read> Read for List<T> {
    fn read(answer: Answer) -> Option<Self> {
        match answer {
            Answer::Array(items) => items
                .into_iter()
                .map(T::read)
                .collect::<Option<_>>()
                .map(List),
            _ => None,
        }
    }
}

/// A list in which each second word belongs to the one before it.
pub(crate) struct Pairs<A, B>(pub(crate) Vec<(A, B)>);

impl<A: Read, B: Read> Read for Pairs<A, B> {
    fn read(answer: Answer) -> Option<Self> {
        let mut items = List::<Word>::read(answer)?.0.into_iter();
        let mut pairs = Vec::new();
        while let Some(first) = items.next() {
            pairs.push((A::read(first.0)?, B::read(items.next()?.0)?));
        }
        Some(Pairs(pairs))
    }
}

impl<T: Read> Read for HashMap<String, T> {
    fn read(answer: Answer) -> Option<Self> {
        Some(Pairs::read(answer)?.0.into_iter().collect())
    }
}

impl<A: Read, B: Read> Read for (A, B) {
    fn read(answer: Answer) -> Option<Self> {
        let [first, second] = List::<Word>::read(answer)?.0.try_into().ok()?;
        Some((A::read(first.0)?, B::read(second.0)?))
    }
}

/// Read later.
struct Word(Answer);

impl Read for Word {
    fn read(answer: Answer) -> Option<Self> {
        Some(Word(answer))
    }
}
