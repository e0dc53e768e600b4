//! The ids of permits: bytes in Redis, hex digits to the user.

use std::ops::Deref;
use std::sync::Arc;

use crate::engine::request::Arg;
use crate::outside;

/// So many bytes has each that is given out.
pub(super) const BYTES: usize = 16;

/// An id as it stands in Redis, or several one behind the other. One that was given out takes no memory of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Id {
    One([u8; BYTES]),
    /// Of any other length.
    Other(Arc<[u8]>),
}

impl Id {
    /// As an argument of a script.
    pub(super) fn arg(&self) -> Arg {
        match self {
            Id::One(bytes) => Arg::Short(*bytes),
            Id::Other(bytes) => Arg::Bytes(Arc::clone(bytes)),
        }
    }
}

impl From<&[u8]> for Id {
    fn from(bytes: &[u8]) -> Self {
        match bytes.try_into() {
            Ok(one) => Id::One(one),
            Err(_) => Id::Other(bytes.into()),
        }
    }
}

impl Deref for Id {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Id::One(bytes) => bytes,
            Id::Other(bytes) => bytes,
        }
    }
}

/// New ones, one behind the other.
pub(super) fn make(count: usize) -> Id {
    if count == 1 {
        let mut bytes = [0; BYTES];
        outside::random(&mut bytes);
        return Id::One(bytes);
    }
    let mut bytes = vec![0; BYTES * count];
    outside::random(&mut bytes);
    Id::Other(bytes.into())
}

/// Each of some that stand one behind the other.
pub(super) fn split(ids: &[u8]) -> impl Iterator<Item = Id> {
    ids.chunks(BYTES).map(Into::into)
}

pub(super) fn to_hex(bytes: &[u8]) -> Arc<str> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let write = |text: &mut [u8]| {
        let (pairs, _) = text.as_chunks_mut::<2>();
        for (pair, byte) in pairs.iter_mut().zip(bytes) {
            *pair = [
                DIGITS[usize::from(byte >> 4)],
                DIGITS[usize::from(byte & 15)],
            ];
        }
        str::from_utf8(text).unwrap_or_default().into()
    };
    // Mostly without a detour.
    if bytes.len() == BYTES {
        write(&mut [0; 2 * BYTES])
    } else {
        write(&mut vec![0; 2 * bytes.len()])
    }
}

/// `None` for what is not an even number of hex digits, or nothing.
pub(super) fn from_hex(text: &str) -> Option<Id> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if text.is_empty() || !rest.is_empty() {
        return None;
    }
    let read = |bytes: &mut [u8]| {
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Some(Id::from(&*bytes))
    };
    // Mostly without a detour.
    if pairs.len() == BYTES {
        read(&mut [0; BYTES])
    } else {
        read(&mut vec![0; pairs.len()])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_are_bytes_and_hex_digits() {
        assert_eq!(&*to_hex(&[0, 0x1f, 0xa0, 255]), "001fa0ff");
        assert_eq!(
            from_hex("001fA0FF").as_deref(),
            Some(&[0, 0x1f, 0xa0, 255][..])
        );
        for bad in ["", "1", "123", "xy", "1g", "+1", "ää", " 12"] {
            assert_eq!(from_hex(bad), None, "{bad:?}");
        }
        let some = make(3);
        let each: Vec<Id> = split(&some).collect();
        assert!(each.len() == 3 && each.iter().all(|id| id.len() == BYTES));
        assert!(each[0] != each[1] && each[1] != each[2]);
        assert_eq!(from_hex(&to_hex(&each[0])).as_ref(), Some(&each[0]));
        // The system's bytes are asked for many at a time, and none is given out twice.
        let counts = (1..40).chain([1; 100]);
        let many: Vec<Id> = counts.map(make).collect();
        let all: HashSet<Id> = many.iter().flat_map(|ids| split(ids)).collect();
        assert_eq!(all.len(), (1..40).sum::<usize>() + 100);
    }
}
