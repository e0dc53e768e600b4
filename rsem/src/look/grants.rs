//! The entries of what has been granted at a semaphore: `<client>:<kind><ticket>:<permits>:<life>`, and behind the entries of guards
//! `:<name of the client>`.

/// One of them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) client: String,
    /// A guard holds it; else a caller of `acquire` has not confirmed it yet.
    pub(crate) of_guard: bool,
    pub(crate) permits: u64,
    /// The client's name.
    pub(crate) name: String,
}

impl Entry {
    /// `None` for any other text.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut words = text.splitn(5, ':');
        let (client, ticket, permits) = (words.next()?, words.next()?, words.next()?);
        let of_guard = ticket.starts_with('g');
        if !of_guard && !ticket.starts_with('a') {
            return None;
        }
        Some(Entry {
            client: client.to_owned(),
            of_guard,
            permits: permits.parse().ok()?,
            name: decoded(words.nth(1).unwrap_or_default()),
        })
    }
}

/// A name in which some bytes are written as `%` and two digits.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        let code = others.get(..2).filter(|_| *first == b'%');
        let code =
            code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &others[2..] } else { others };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_as_the_library_writes_them() {
        let entry = |of_guard, permits, name: &str| Entry {
            client: "one".to_owned(),
            of_guard,
            permits,
            name: name.to_owned(),
        };
        let named = Entry::read("one:g7:3:500:a%20shop%7");
        assert_eq!(named, Some(entry(true, 3, "a shop%7")));
        assert_eq!(Entry::read("one:g7:3:500"), Some(entry(true, 3, "")));
        assert_eq!(Entry::read("one:a7:3:100"), Some(entry(false, 3, "")));
        for odd in ["", "one", "one:x1:1:1", "one:g1:-1:1", "one:g1"] {
            assert_eq!(Entry::read(odd), None, "{odd}");
        }
    }
}
