//! Address, user and password of the server, from a URL and the settings.

use std::fmt;

use redis::{ConnectionAddr, IntoConnectionInfo, ProtocolVersion};

use crate::config::{Config, Protocol};

/// Where the server is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Address {
    Tcp {
        host: String,
        port: u16,
    },
    #[cfg(unix)]
    Unix(std::path::PathBuf),
}

impl Address {
    pub(super) fn tcp(host: &str, port: u16) -> Self {
        Address::Tcp {
            host: host.to_owned(),
            port,
        }
    }
}

/// The parts of a URL.
#[derive(Clone)]
pub(super) struct Target {
    /// One, or those of several servers that are named.
    pub(super) addresses: Vec<Address>,
    pub(super) kind: Kind,
    /// `rediss://`.
    pub(super) tls: bool,
    pub(super) login: Login,
}

/// The relation of the servers to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// There is one.
    One,
    /// Some nodes of a cluster.
    Cluster,
    /// A master and its replicas: which is which, they say themselves.
    Replicated,
}

/// User, database and protocol of a connection.
#[derive(Clone, Default)]
pub(super) struct Login {
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: i64,
    pub(super) protocol: Protocol,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp { host, port } => write!(f, "{host}:{port}"),
            #[cfg(unix)]
            Address::Unix(path) => path.display().fmt(f),
        }
    }
}

/// Reads the settings. No error repeats the URL, or a part of it: it may contain a password.
pub(super) fn read(config: &Config) -> Result<Target, String> {
    let several = read_several(&config.url)?;
    let mut target = several.map_or_else(|| read_url(&config.url), Ok)?;
    let login = &mut target.login;
    if let Some(database) = config.database {
        login.database = database;
    }
    if let Some(protocol) = config.protocol {
        login.protocol = protocol;
    }
    if let Some(username) = &config.username {
        login.username = Some(username.clone());
    }
    if let Some(password) = &config.password {
        login.password = Some(password.clone());
    }
    Ok(target)
}

const SEVERAL_FORM: &str = "of a cluster the URL is redis+cluster:// or rediss+cluster://[[user]:password@]host[:port][,host[:port]]..., \
                            of a master and its replicas redis+replicated://..[/database]";

/// Reads a URL that names several servers; nothing where it is none.
fn read_several(url: &str) -> Result<Option<Target>, String> {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let scheme = scheme.to_ascii_lowercase();
    let (scheme, kind) = match scheme.split_once('+') {
        Some((scheme, "cluster")) => (scheme, Kind::Cluster),
        Some((scheme, "replicated")) => (scheme, Kind::Replicated),
        _ => return Ok(None),
    };
    if !matches!(scheme, "redis" | "rediss" | "valkey" | "valkeys") {
        return Err(SEVERAL_FORM.to_owned());
    }
    // The common parts of all of them, on both sides of the hosts.
    let (user, rest) = rest
        .rsplit_once('@')
        .map_or((String::new(), rest), |(user, rest)| {
            (format!("{user}@"), rest)
        });
    let (hosts, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let target = |host: &str| {
        if host.is_empty() {
            return Err(SEVERAL_FORM.to_owned());
        }
        let target = read_url(&format!("{scheme}://{user}{host}{path}"));
        target.map_err(|reason| format!("{SEVERAL_FORM}: {reason}"))
    };
    let mut targets: Vec<_> = hosts.split(',').map(target).collect::<Result<_, _>>()?;
    let addresses = targets
        .iter_mut()
        .flat_map(|target| target.addresses.drain(..));
    let addresses = addresses.collect();
    // The other parts are the same for each host.
    let first = targets.pop().ok_or(SEVERAL_FORM)?;
    Ok(Some(Target {
        addresses,
        kind,
        ..first
    }))
}

/// Reads the URL of a sentinel.
pub(super) fn read_sentinel(url: &str) -> Result<Target, String> {
    let mut target = read_url(url).map_err(|reason| format!("a sentinel: {reason}"))?;
    if target.login.database != 0 {
        return Err(
            "a sentinel has no databases: that of the master stands in its own URL".to_owned(),
        );
    }
    for address in &mut target.addresses {
        if let Address::Tcp { port, .. } = address
            && !has_port(url)
        {
            *port = SENTINEL_PORT;
        }
    }
    Ok(target)
}

/// The master's name, where a URL has it in place of the host.
pub(super) fn master_of(url: &str, address: &Address) -> Result<String, String> {
    match address {
        Address::Tcp { host, .. } if !has_port(url) => Ok(host.clone()),
        _ => Err(
            "with sentinels the URL is redis://[[user]:password@]name[/database], with the master's name and no port"
                .to_owned(),
        ),
    }
}

const SENTINEL_PORT: u16 = 26379;

/// Whether a port stands in a URL.
fn has_port(url: &str) -> bool {
    let (_, rest) = url.split_once("://").unwrap_or_default();
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    (host.rsplit_once(':')).is_some_and(|(_, port)| !port.ends_with(']'))
}

const FORM: &str = "not a Redis URL (redis:// or rediss://[[user]:password@]host[:port][/database][?protocol=resp3], with reserved \
                    characters of user and password percent-encoded: %40 for @, %3A for :, %2F for /, %3F for ?, %23 for #, %25 for %)";

pub(super) fn read_url(url: &str) -> Result<Target, String> {
    // They would be left out in silence.
    if url.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(format!("the URL contains blanks: {FORM}"));
    }
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let scheme = scheme.to_ascii_lowercase();
    let tls = matches!(scheme.as_str(), "rediss" | "valkeys");
    match scheme.as_str() {
        "redis" | "valkey" | "rediss" | "valkeys" => check_parameters(url, &["protocol"], FORM)?,
        "unix" | "redis+unix" | "valkey+unix" => {
            check_parameters(url, &["db", "user", "pass", "protocol"], SOCKET_FORM)?;
        }
        _ => {}
    }
    // TLS is not the redis crate's.
    let without_tls = tls.then(|| format!("redis://{rest}"));
    let info = without_tls
        .as_deref()
        .unwrap_or(url)
        .into_connection_info()
        .map_err(|error| format!("{FORM}: {error}"))?;
    let address = match info.addr() {
        ConnectionAddr::Tcp(host, port) => Address::Tcp {
            host: host.clone(),
            port: *port,
        },
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => Address::Unix(path.clone()),
        _ => return Err(FORM.to_owned()),
    };
    let redis = info.redis_settings();
    let login = Login {
        username: redis.username().map(str::to_owned),
        password: redis.password().map(str::to_owned),
        database: redis.db(),
        protocol: match redis.protocol() {
            ProtocolVersion::RESP3 => Protocol::Resp3,
            _ => Protocol::Resp2,
        },
    };
    if login.database < 0 {
        return Err(format!("a database below 0: {FORM}"));
    }
    Ok(Target {
        addresses: vec![address],
        kind: Kind::One,
        tls,
        login,
    })
}

/// A socket's path can't hold user, password and database: parameters do.
const SOCKET_FORM: &str = "redis+unix:///path?db=3&user=..&pass=..&protocol=resp3";

/// Those that are not `known` would be left out in silence.
fn check_parameters(url: &str, known: &[&str], form: &str) -> Result<(), String> {
    let (_, parameters) = url.split_once('?').unwrap_or_default();
    for parameter in parameters
        .split('&')
        .filter(|parameter| !parameter.is_empty())
    {
        match parameter.split_once('=').unwrap_or((parameter, "")) {
            ("protocol", "resp2" | "resp3" | "2" | "3") => {}
            ("protocol", _) => return Err(format!("the protocol is resp2 or resp3: {form}")),
            (name, _) if known.contains(&name) => {}
            _ => return Err(unknown_parameters(known, form)),
        }
    }
    if url.contains('#') {
        return Err(unknown_parameters(known, form));
    }
    Ok(())
}

fn unknown_parameters(known: &[&str], form: &str) -> String {
    let known = known.join(", ");
    format!("the URL has parameters (behind a ? or #) other than {known}: {form}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> (Address, Option<String>, Option<String>, i64) {
        let target = read_url(url).expect(url);
        let (address, login) = (target.addresses[0].clone(), target.login);
        (address, login.username, login.password, login.database)
    }

    #[test]
    fn urls_are_read() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(read("redis://h"), (Address::tcp("h", 6379), None, None, 0));
        assert_eq!(
            read("redis://u:p%40%2f%3a@h:1/3"),
            (Address::tcp("h", 1), text("u"), text("p@/:"), 3)
        );
        assert_eq!(read("redis://:p@h").2, text("p"));
        assert_eq!(read("redis://u@h").1, text("u"));
        for (url, tls) in [
            ("redis://h", false),
            ("rediss://h", true),
            ("VALKEYS://h", true),
        ] {
            assert_eq!(read_url(url).expect(url).tls, tls, "{url}");
        }
        assert_eq!(
            read("rediss://u:p@h:1/3"),
            (Address::tcp("h", 1), text("u"), text("p"), 3)
        );
        #[cfg(unix)]
        assert_eq!(
            read("redis+unix:///run/r.sock?db=2&user=u&pass=p"),
            (Address::Unix("/run/r.sock".into()), text("u"), text("p"), 2)
        );
    }

    #[test]
    fn a_protocol_may_be_asked_for() {
        for (url, protocol) in [
            ("redis://h", Protocol::Resp2),
            ("redis://h/2?protocol=resp2", Protocol::Resp2),
            ("redis://u:p@h/2?protocol=resp3", Protocol::Resp3),
            ("rediss://h?protocol=3", Protocol::Resp3),
            #[cfg(unix)]
            ("redis+unix:///r.sock?protocol=resp3&db=2", Protocol::Resp3),
        ] {
            assert_eq!(read_url(url).expect(url).login.protocol, protocol, "{url}");
        }
        let url = "redis+cluster://u:p@h,i:1?protocol=resp3";
        let cluster = read_several(url).unwrap().expect("several");
        assert_eq!(cluster.login.protocol, Protocol::Resp3);
        let hosts = [Address::tcp("h", 6379), Address::tcp("i", 1)];
        assert_eq!(cluster.addresses, hosts);
        let mut config = Config::new("redis://h?protocol=resp3");
        config.protocol = Some(Protocol::Resp2);
        let login = super::read(&config).expect("a URL").login;
        assert_eq!(login.protocol, Protocol::Resp2);
    }

    #[test]
    fn a_masters_name_stands_in_place_of_the_host() {
        let master = |url: &str| master_of(url, &read_url(url).expect(url).addresses[0]);
        for (url, name) in [
            ("redis://mymaster", "mymaster"),
            ("rediss://u:p%40@My_Master-1.2/3", "My_Master-1.2"),
            ("redis://:p@m/", "m"),
            ("redis://m?protocol=resp3", "m"),
        ] {
            assert_eq!(master(url).as_deref(), Ok(name), "{url}");
        }
        for url in ["redis://m:6379", "redis://u:p@m:1/3", "redis+unix:///run/r"] {
            assert!(master(url).is_err(), "{url}");
        }
        let sentinel = |url: &str| read_sentinel(url).map(|target| target.addresses[0].to_string());
        assert_eq!(sentinel("redis://u:p@h").as_deref(), Ok("h:26379"));
        assert_eq!(sentinel("redis://[::1]").as_deref(), Ok("[::1]:26379"));
        assert_eq!(sentinel("rediss://[::1]:3/").as_deref(), Ok("[::1]:3"));
    }

    #[test]
    fn what_would_be_left_out_in_silence_is_an_error() {
        for (url, reason) in [
            (" redis://h", "blanks"),
            ("redis://h\n", "blanks"),
            ("redis://:a b@h", "blanks"),
            ("redis://h?db=3", "parameters"),
            ("redis://h/?protocol=resp4", "resp2 or resp3"),
            ("redis://h/?protocol=resp3&db=1", "parameters"),
            ("redis://:p?protocol=secret@h", "resp2 or resp3"),
            ("redis+unix:///run/r.sock?db=1&protocol", "resp2 or resp3"),
            ("redis://h/3#insecure", "parameters"),
            ("redis+unix:///run/r.sock?database=3", "parameters"),
            ("rediss://:secret@h#insecure", "parameters"),
            ("REDISS://h?insecure=true", "parameters"),
            ("http://h", "not a Redis URL"),
            ("redis://h/three", "not a Redis URL"),
            ("redis://h/-1", "not a Redis URL"),
            ("redis://:secr/et@h", "percent-encoded"),
            ("", "not a Redis URL"),
        ] {
            let told = read_url(url)
                .err()
                .unwrap_or_else(|| panic!("{url:?} is taken"));
            assert!(told.contains(reason), "{url:?}: {told}");
            assert!(!told.contains("secr"), "{told}");
        }
    }

    #[test]
    fn addresses_are_written_as_one_would_type_them() {
        assert_eq!(Address::tcp("h", 1).to_string(), "h:1");
        assert_eq!(read("redis://[::1]:6380").0.to_string(), "[::1]:6380");
    }
}
