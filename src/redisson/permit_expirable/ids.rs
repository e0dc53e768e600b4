//! The ids of permits: bytes in Redis, hex digits to the user.

use std::sync::Arc;

use crate::outside;

/// An id as it stands in Redis.
pub(super) type Id = Arc<[u8]>;

/// So many bytes has each that is given out.
pub(super) const BYTES: usize = 16;

/// New ones, one behind the other.
pub(super) fn make(count: usize) -> Id {
    let mut bytes = vec![0; BYTES * count];
    outside::random(&mut bytes);
    bytes.into()
}

/// Each of some that stand one behind the other.
pub(super) fn split(ids: &[u8]) -> impl Iterator<Item = Id> {
    ids.chunks(BYTES).map(Into::into)
}

pub(super) fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(*byte)])
        .collect()
}

/// `None` for what is not an even number of hex digits, or nothing.
pub(super) fn from_hex(text: &str) -> Option<Id> {
    let digit = |byte: u8| u8::try_from(char::from(byte).to_digit(16)?).ok();
    let pairs = text.as_bytes().chunks_exact(2);
    if text.is_empty() || !pairs.remainder().is_empty() {
        return None;
    }
    pairs
        .map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_bytes_and_hex_digits() {
        assert_eq!(to_hex(&[0, 0x1f, 0xa0, 255]), "001fa0ff");
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
    }
}
