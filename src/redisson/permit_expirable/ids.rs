//! The ids of permits: bytes in Redis, hex digits to the user.

use std::ops::Deref;
use std::sync::Arc;

use crate::engine::request::Arg;
use crate::queue::Ticket;
use crate::transport::digest;

/// Each that is given out has so many bytes.
pub(super) const BYTES: usize = 16;

/// An id as it stands in Redis. One of this crate or of Redisson takes no memory of its own.
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

/// The ids of the permits that are taken under `ticket`, as hex digits; `lua/permit_expirable/permits.lua` makes the same. `secret` is
/// the client's.
pub(super) fn of(secret: &str, ticket: Ticket, amount: u32) -> impl Iterator<Item = Arc<str>> {
    let hash = digest(&format!("{secret}:{ticket}"));
    (1..=amount).map(move |place| format!("{}{place:04x}", &hash[..28]).into())
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
        let some: Vec<_> = of("00", 7, 3).collect();
        assert!(some.iter().all(|id| id.len() == 2 * BYTES));
        assert_ne!(some[0], some[1]);
        assert_ne!(of("00", 8, 1).next(), of("00", 7, 1).next());
        assert_ne!(of("01", 7, 1).next(), of("00", 7, 1).next());
        assert_eq!(
            from_hex(&some[0]).map(|id| to_hex(&id)).as_ref(),
            some.first()
        );
    }
}
