//! Which slot of a cluster a key falls into.

/// So many slots a cluster has.
pub(super) const SLOTS: u16 = 16384;

/// The slot of `key`.
pub(crate) fn slot(key: &str) -> u16 {
    crc16(hash_tag(key).as_bytes()) % SLOTS
}

/// The part of a key that decides its slot.
pub(crate) fn hash_tag(key: &str) -> &str {
    let tag = key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .map(|(tag, _)| tag);
    match tag {
        Some(tag) if !tag.is_empty() => tag,
        _ => key,
    }
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| match crc & 0x8000 {
            0 => crc << 1,
            _ => (crc << 1) ^ 0x1021,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_server() {
        // As `CLUSTER KEYSLOT` of redis-server 7.0.15 says.
        for (key, number) in [
            ("", 0),
            ("123456789", 12739),
            ("a", 15495),
            ("redisson_sc:{a}", 15495),
            ("{}a", 10875),
            ("a{", 14311),
            ("{{a}}", 10276),
            ("{a}{b}", 15495),
            ("ü", 9552),
        ] {
            assert_eq!(slot(key), number, "{key:?}");
        }
    }
}
