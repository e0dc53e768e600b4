//! The ids of permits: hex digits to the user, bytes in Redis.

use std::fmt::Write;
use std::sync::Arc;

use crate::engine::request::Arg;
use crate::queue::Ticket;
use crate::transport::digest;

/// As hex digits in lower case.
pub(super) type Id = Arc<str>;

/// The ids of the permits that are taken under `ticket`; `lua/permit_expirable/permits.lua` makes the same. `secret` is the client's.
pub(super) fn of(secret: &str, ticket: Ticket, amount: u32) -> impl Iterator<Item = Id> {
    let hash = digest(&format!("{secret}:{ticket}"));
    (1..=amount).map(move |place| format!("{}{place:04x}", &hash[..28]).into())
}

/// `None` for what is not an even number of hex digits, or nothing.
pub(super) fn read(text: &str) -> Option<Id> {
    let digits = text.len().is_multiple_of(2) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    (digits && !text.is_empty()).then(|| text.to_ascii_lowercase().into())
}

pub(super) fn to_hex(bytes: &[u8]) -> Id {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text.into()
}

/// As an argument of a script.
pub(super) fn arg(id: &str) -> Arg {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).unwrap_or(0) as u8;
    let pairs = id.as_bytes().chunks_exact(2);
    let bytes: Vec<u8> = pairs
        .map(|pair| digit(&pair[0]) << 4 | digit(&pair[1]))
        .collect();
    Arg::Bytes(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_bytes_and_hex_digits() {
        assert_eq!(&*to_hex(&[0, 0x1f, 0xa0, 255]), "001fa0ff");
        assert_eq!(read("001fA0FF").as_deref(), Some("001fa0ff"));
        let bytes = arg("001fa0ff");
        assert!(matches!(&bytes, Arg::Bytes(bytes) if **bytes == [0, 0x1f, 0xa0, 255]));
        for bad in ["", "1", "123", "xy", "1g", "+1", "ää", " 12"] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
        let some: Vec<_> = of("00", 7, 3).collect();
        assert!(some.iter().all(|id| id.len() == 32) && some[0] != some[1]);
        assert_ne!(of("00", 8, 1).next(), of("00", 7, 1).next());
        assert_ne!(of("01", 7, 1).next(), of("00", 7, 1).next());
    }
}
