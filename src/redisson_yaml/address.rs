//! Addresses as Redisson writes them: `redis://[[user]:password@]host:port`, where one word before the `@` is the password.

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// A server.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) tls: bool,
    /// Host and port as they stand in a URL, or the path of a socket.
    pub(super) place: Place,
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    Tcp(String),
    Socket(String),
}

const FORM: &str =
    "no address: redis://host:port, rediss:// for TLS, valkey://, valkeys://, or redis+uds:///path";

impl Address {
    /// No error repeats the address: it may contain a password.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").ok_or(FORM)?;
        let tls = match scheme {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" => true,
            "redis+uds" | "valkey+uds" => {
                let place = Place::Socket(rest.to_owned());
                return Ok(Address {
                    tls: false,
                    place,
                    username: None,
                    password: None,
                });
            }
            _ => return Err(FORM.to_owned()),
        };
        let (user, rest) = match rest.rsplit_once('@') {
            Some((user, rest)) => (Some(user), rest),
            None => (None, rest),
        };
        let (username, password) = match user.map(|user| user.split_once(':').unwrap_or(("", user)))
        {
            None => (None, None),
            Some((name, password)) => (
                Some(decode(name)?).filter(|name| !name.is_empty()),
                Some(decode(password)?),
            ),
        };
        let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if place.len() < rest.trim_end_matches('/').len() {
            return Err(
                "something stands behind the port, where Redisson would leave it out".to_owned(),
            );
        }
        let (host, port) = place.rsplit_once(':').ok_or("the address has no port")?;
        let known: Result<u16, _> = port.parse();
        if known.is_err() {
            return Err("the address has no port".to_owned());
        }
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err("the address has no host".to_owned());
        }
        let place = if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        };
        Ok(Address {
            tls,
            place: Place::Tcp(place),
            username,
            password,
        })
    }

    /// `user:password@`, as it stands in a URL of this crate's.
    pub(super) fn login(username: Option<&str>, password: Option<&str>) -> String {
        if username.is_none() && password.is_none() {
            return String::new();
        }
        let encode = |text: Option<&str>| {
            utf8_percent_encode(text.unwrap_or_default(), NON_ALPHANUMERIC).to_string()
        };
        let (name, password) = (encode(username), encode(password));
        format!("{name}:{password}@")
    }
}

/// As Java's `URLDecoder`.
fn decode(text: &str) -> Result<String, String> {
    let text = text.replace('+', " ");
    let decoded = percent_decode_str(&text).decode_utf8();
    let decoded = decoded.map_err(|_| "user or password are not percent-encoded UTF-8")?;
    Ok(decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_redisson_does() {
        let read = |text: &str| {
            Address::read(text).map(|address| {
                let Place::Tcp(place) = address.place else {
                    panic!("no socket")
                };
                (place, address.tls, address.username, address.password)
            })
        };
        let text = |text: &str| Some(text.to_owned());
        let plain = |place: &str| Ok((place.to_owned(), false, None, None));
        assert_eq!(read("redis://h:1"), plain("h:1"));
        assert_eq!(read("valkey://h:1/"), plain("h:1"));
        assert_eq!(read("redis://::1:7"), plain("[::1]:7"));
        assert_eq!(read("redis://[::1]:7"), plain("[::1]:7"));
        let secured = ("h:1".to_owned(), true, text("u"), text("p@ "));
        assert_eq!(read("rediss://u:p%40+@h:1"), Ok(secured));
        let known = ("h:1".to_owned(), false, None, text("secret"));
        assert_eq!(read("redis://secret@h:1"), Ok(known.clone()));
        assert_eq!(read("redis://:secret@h:1"), Ok(known));
        for (text, told) in [
            ("h:1", "no address"),
            ("http://h:1", "no address"),
            ("redis://h", "port"),
            ("redis://secret@h:port", "port"),
            ("redis://:1", "host"),
            ("redis://secret@h:1/3", "behind the port"),
            ("redis://%ff@h:1", "percent-encoded"),
        ] {
            let error = read(text).expect_err(text);
            assert!(
                error.contains(told) && !error.contains("secret"),
                "{text}: {error}"
            );
        }
    }
}
