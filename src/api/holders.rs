//! [`PermitHolder`]: what the guards of one client hold.

use std::collections::BTreeMap;

/// The permits of a semaphore that the guards of a client hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermitHolder {
    client_id: String,
    client_name: String,
    permits: u64,
}

impl PermitHolder {
    /// From the entries in Redis, `<client>:g<ticket>:<permits>:<life>:<name>`; one for each client. Other texts are ignored.
    pub(crate) fn of<'a>(entries: impl Iterator<Item = &'a str>) -> Vec<Self> {
        let mut all: BTreeMap<&str, PermitHolder> = BTreeMap::new();
        for entry in entries {
            let mut words = entry.splitn(5, ':');
            let (id, ticket, permits) = (words.next(), words.next(), words.next());
            let name = words.nth(1).unwrap_or_default();
            let permits = permits.and_then(|permits| permits.parse::<u64>().ok());
            let held = ticket.is_some_and(|ticket| ticket.starts_with('g'));
            if let (Some(id), Some(permits), true) = (id, permits, held) {
                let holder = all.entry(id).or_insert_with(|| PermitHolder {
                    client_id: id.to_owned(),
                    client_name: decoded(name),
                    permits: 0,
                });
                holder.permits += permits;
            }
        }
        all.into_values().collect()
    }

    /// The [id](crate::Client::id) of the client.
    #[must_use]
    pub fn client_id(&self) -> &str {
        &self.client_id
    }

    /// The [name](crate::ClientBuilder::client_name) of the client; empty where it has none.
    #[must_use]
    pub fn client_name(&self) -> &str {
        &self.client_name
    }

    /// How many permits its guards hold.
    #[must_use]
    pub fn permits(&self) -> u64 {
        self.permits
    }
}

/// A client's name as it stands in an entry: without white space and what else would end a word of an answer.
pub(crate) fn encoded(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@/".contains(&byte);
    let encode = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02x}"),
    };
    name.bytes().map(encode).collect()
}

fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let code = part.get(..2);
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(code.unwrap_or(b'%'));
        bytes.extend(&part.as_bytes()[code.map_or(0, |_| 2)..]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_one_client_add_up() {
        let entries = [
            "one:g1:2:500:a%20shop",
            "one:g7:3:0:a%20shop",
            "two:g1:1:500",
            "two:a3:1:100",
        ];
        let holders = PermitHolder::of(entries.into_iter());
        let seen: Vec<_> = holders
            .iter()
            .map(|holder| (holder.client_id(), holder.client_name(), holder.permits()))
            .collect();
        assert_eq!(seen, [("one", "a shop", 5), ("two", "", 1)]);
    }

    #[test]
    fn any_name_comes_back_and_nonsense_is_nothing() {
        for name in ["", "a shop", "ä:%,\n", "%"] {
            assert_eq!(decoded(&encoded(name)), name);
        }
        for odd in ["", ":", "x:g1", "x:g1:-1:1", "x:g:g:g:%zz", "%"] {
            assert_eq!(PermitHolder::of([odd].into_iter()), []);
        }
        assert_eq!(decoded("%ä%"), "%ä%");
    }
}
