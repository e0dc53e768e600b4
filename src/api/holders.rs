//! [`PermitHolder`]: what is on record of one client's permits.

use std::time::{Duration, SystemTime};

/// What a client holds of a watched semaphore, as far as it is on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermitHolder {
    client_id: String,
    client_name: String,
    permits: u64,
    since: SystemTime,
}

impl PermitHolder {
    /// From how it stands in Redis: `<client id>:<number>`, and `<permits> <milliseconds since 1970> <name>` in the first line. What is not so
    /// counts as nothing.
    pub(crate) fn read(holder: &str, entry: &str) -> Self {
        let line = entry.lines().next().unwrap_or_default();
        let mut words = line.splitn(3, ' ');
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        let (permits, since) = (number().unwrap_or(0), number().unwrap_or(0));
        let since = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(since));
        let client_id = holder.rsplit_once(':').map_or(holder, |(id, _)| id);
        PermitHolder {
            client_id: client_id.to_owned(),
            client_name: words.next().unwrap_or_default().to_owned(),
            permits,
            since: since.unwrap_or(SystemTime::UNIX_EPOCH),
        }
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

    /// Since when, by the server's clock, its guards have held some, with short breaks perhaps.
    #[must_use]
    pub fn since(&self) -> SystemTime {
        self.since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_redis_is_read() {
        let holder = PermitHolder::read("id:7", "3 1500 a shop");
        assert_eq!((holder.client_id(), holder.client_name()), ("id", "a shop"));
        assert_eq!(holder.permits(), 3);
        let more = PermitHolder::read("id:7", "3 1500 a shop\n0000000000000007 5");
        assert_eq!(more, holder);
        let since = SystemTime::UNIX_EPOCH + Duration::from_millis(1500);
        assert_eq!(holder.since(), since);
        for odd in [
            "",
            "x",
            "-1 -1",
            "3",
            "18446744073709551615 18446744073709551615 x",
        ] {
            PermitHolder::read(odd, odd);
        }
    }
}
