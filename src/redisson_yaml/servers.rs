//! Addresses, user and time limits, for each of Redisson's modes.

use std::collections::BTreeMap;

use super::address::{Address, Place};
use super::known;
use super::section::{Section, Setting};
use super::{Fault, Ignored, fault};
use crate::client::{Client, ClientBuilder};
use crate::config::{NameMapper, Protocol, ShardedPubSub};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Single,
    Sentinel,
    Cluster,
    MasterSlave,
    Replicated,
}

const MODES: &[(&str, Mode)] = &[
    ("singleServerConfig", Mode::Single),
    ("sentinelServersConfig", Mode::Sentinel),
    ("clusterServersConfig", Mode::Cluster),
    ("masterSlaveServersConfig", Mode::MasterSlave),
    ("replicatedServersConfig", Mode::Replicated),
];

/// Redisson PRO's.
const PAID: &[&str] = &[
    "proxyServersConfig",
    "multiClusterServersConfig",
    "multiSentinelServersConfig",
];

const MAPPERS: &[&str] = &[
    "org.redisson.api.DefaultNameMapper",
    "org.redisson.api.NameMapper",
    "org.redisson.config.DefaultNameMapper",
];

/// Takes all that counts out of the file.
pub(super) fn read(
    common: &mut Section,
    mappers: &BTreeMap<String, NameMapper>,
    ignored: &mut Vec<Ignored>,
) -> Result<ClientBuilder, Fault> {
    for paid in PAID {
        if let Some(setting) = common.take(paid) {
            return Err(setting.wrong("a mode of Redisson PRO, which is not known here"));
        }
    }
    let (mode, mut servers) = mode(common)?;
    let (mut builder, addresses) = places(mode, &mut servers)?;
    // Those of sentinels are for them.
    let own = addresses.first().filter(|_| mode != Mode::Sentinel);
    let password;
    (builder, password) = who(builder, common, &mut servers, own, ignored)?;
    if mode == Mode::Sentinel {
        builder = sentinel_login(builder, &mut servers, password)?;
    }
    builder = times(builder, common, &mut servers)?;
    if mode == Mode::Cluster
        && let Some(interval) = servers.time("scanInterval")?
    {
        builder = builder.scan_interval(interval);
    }
    builder = names(builder, common, &mut servers, mappers)?;
    secured(common, &mut servers, ignored)?;
    servers.finish(known::SERVERS, ignored)?;
    Ok(builder)
}

/// Redisson would take one of several.
fn mode(common: &mut Section) -> Result<(Mode, Section), Fault> {
    let mut found: Option<(&str, Mode, Section)> = None;
    for (key, mode) in MODES {
        if let Some(section) = common.section(key)? {
            if let Some((other, ..)) = found {
                return Err(section.fault(format!("{key}: there is {other} already")));
            }
            found = Some((key, *mode, section));
        }
    }
    let none = || {
        let modes: Vec<_> = MODES.iter().map(|(key, _)| *key).collect();
        fault(
            1,
            format!("it says nowhere where Redis is: {}", modes.join(", ")),
        )
    };
    found
        .map(|(_, mode, section)| (mode, section))
        .ok_or_else(none)
}

/// The addresses that are given as `key`, at least one.
fn addresses(servers: &mut Section, key: &str) -> Result<Vec<Address>, Fault> {
    let setting = servers.take(key).ok_or_else(|| servers.missing(key))?;
    let mut addresses = Vec::new();
    for (line, text) in setting.list()? {
        let address = Address::read(&text);
        addresses.push(address.map_err(|what| fault(line, format!("{}: {what}", setting.key)))?);
    }
    match addresses.first().map(|first| first.tls) {
        None => Err(setting.wrong("no address")),
        Some(tls) if addresses.iter().any(|address| address.tls != tls) => {
            Err(setting.wrong("some by TLS, and some not"))
        }
        Some(_) => Ok(addresses),
    }
}

fn places(mode: Mode, servers: &mut Section) -> Result<(ClientBuilder, Vec<Address>), Fault> {
    let key = match mode {
        Mode::Single => "address",
        Mode::Sentinel => "sentinelAddresses",
        Mode::Cluster | Mode::Replicated => "nodeAddresses",
        Mode::MasterSlave => "masterAddress",
    };
    let line = servers.line(key).unwrap_or(1);
    let addresses = addresses(servers, key)?;
    let user = |address: &Address| (address.username.clone(), address.password.clone());
    let differ = |pair: &[Address]| user(&pair[0]) != user(&pair[1]);
    if mode != Mode::Sentinel && addresses.windows(2).any(differ) {
        let what = "some with another user or password: there is one for all";
        return Err(fault(line, format!("{key}: {what}")));
    }
    let scheme = if addresses.iter().any(|address| address.tls) {
        "rediss"
    } else {
        "redis"
    };
    let mut hosts = Vec::new();
    for address in &addresses {
        match (&address.place, addresses.len(), mode) {
            (Place::Tcp(host), ..) => hosts.push(host.as_str()),
            (Place::Socket(path), 1, Mode::Single) => {
                let builder = Client::builder(format!("redis+unix://{path}"));
                return Ok((builder, addresses));
            }
            (Place::Socket(_), ..) => {
                return Err(fault(line, format!("{key}: a socket is a single server's")));
            }
        }
    }
    let hosts = hosts.join(",");
    let builder = match mode {
        Mode::Single | Mode::MasterSlave => {
            if addresses.len() > 1 {
                return Err(fault(line, format!("{key}: one address")));
            }
            Client::builder(format!("{scheme}://{hosts}"))
        }
        Mode::Cluster => {
            let builder = Client::builder(format!("{scheme}+cluster://{hosts}"));
            match servers.take("shardedSubscriptionMode") {
                None => builder,
                Some(setting) => builder.sharded_pubsub(setting.word(&[
                    ("AUTO", ShardedPubSub::Auto),
                    ("ON", ShardedPubSub::On),
                    ("OFF", ShardedPubSub::Off),
                ])?),
            }
        }
        Mode::Replicated => Client::builder(format!("{scheme}+replicated://{hosts}")),
        Mode::Sentinel => sentinels(servers, scheme, &addresses)?,
    };
    Ok((builder, addresses))
}

/// Redisson reaches the master by TLS where it reaches the sentinels so.
fn sentinels(
    servers: &mut Section,
    scheme: &str,
    addresses: &[Address],
) -> Result<ClientBuilder, Fault> {
    let setting = servers.take("masterName");
    let setting = setting.ok_or_else(|| servers.missing("masterName"))?;
    let master = setting.text()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if master.is_empty() || !master.chars().all(plain) {
        return Err(setting.wrong("a name of letters, digits, '.', '_' and '-'"));
    }
    let urls = addresses.iter().filter_map(|address| match &address.place {
        Place::Tcp(host) => {
            let login = Address::login(address.username.as_deref(), address.password.as_deref());
            Some(format!("{scheme}://{login}{host}"))
        }
        Place::Socket(_) => None,
    });
    let builder = Client::builder(format!("{scheme}://{master}"));
    Ok(builder.sentinels(urls))
}

/// Redisson logs in to sentinels only where they want that: with the servers' `password` where they have none of their own, but
/// never as the servers' user.
fn sentinel_login(
    builder: ClientBuilder,
    servers: &mut Section,
    password: Option<String>,
) -> Result<ClientBuilder, Fault> {
    let username = servers.text("sentinelUsername")?;
    let password = servers.text("sentinelPassword")?.or(password);
    Ok(match password {
        Some(password) => builder.sentinel_login(username, password),
        None => builder,
    })
}

/// A setting beside the servers' section comes before one in it, as in 4.x, but after one in an address. 3.x knows only those in the section.
fn either(common: &mut Section, servers: &mut Section, key: &str) -> Option<Setting> {
    let own = servers.take(key);
    let other = common.take(key);
    other.or(own)
}

/// Also returns the password.
fn who(
    mut builder: ClientBuilder,
    common: &mut Section,
    servers: &mut Section,
    own: Option<&Address>,
    ignored: &mut Vec<Ignored>,
) -> Result<(ClientBuilder, Option<String>), Fault> {
    let text = |setting: &Option<Setting>| setting.as_ref().map(Setting::text).transpose();
    let user = either(common, servers, "username");
    let username = text(&user)?;
    let password = either(common, servers, "password");
    if let Some(setting) = &password
        && setting.text()?.starts_with("{aes}")
    {
        return Err(setting.wrong("encrypted, as only Redisson PRO can read it"));
    }
    let own = |part: fn(&Address) -> Option<&String>| own.and_then(part).cloned();
    let password = own(|address| address.password.as_ref()).or(text(&password)?);
    let username = own(|address| address.username.as_ref()).or(username);
    match (username, password.clone()) {
        (Some(username), Some(password)) => builder = builder.username(username).password(password),
        (None, Some(password)) => builder = builder.password(password),
        (Some(_), None) => {
            let why = "there is no password, and Redisson does not log in without one";
            ignored.extend(user.map(|setting| Ignored::new(setting.line, setting.key, why)));
        }
        (None, None) => {}
    }
    if let Some(name) = servers.text("clientName")? {
        builder = builder.client_name(name);
    }
    if let Some(database) = servers.number("database")? {
        builder = builder.database(database);
    }
    if let Some(setting) = either(common, servers, "protocol") {
        builder = builder
            .protocol(setting.word(&[("RESP2", Protocol::Resp2), ("RESP3", Protocol::Resp3)])?);
    }
    Ok((builder, password))
}

fn times(
    mut builder: ClientBuilder,
    common: &mut Section,
    servers: &mut Section,
) -> Result<ClientBuilder, Fault> {
    if let Some(timeout) = servers.time("timeout")? {
        builder = builder.response_timeout(timeout);
    }
    if let Some(timeout) = servers.time("connectTimeout")? {
        builder = builder.connect_timeout(timeout);
    }
    if let Some(timeout) = common.time("lockWatchdogTimeout")? {
        builder = builder.lock_watchdog_timeout(timeout);
    }
    if let Some(timeout) = common.time("fairLockWaitTimeout")? {
        builder = builder.fair_lock_wait_timeout(timeout);
    }
    Ok(builder)
}

fn names(
    builder: ClientBuilder,
    common: &mut Section,
    servers: &mut Section,
    mappers: &BTreeMap<String, NameMapper>,
) -> Result<ClientBuilder, Fault> {
    let own = servers.take("nameMapper");
    let is_default =
        |setting: &Setting| (setting.class()).is_some_and(|class| MAPPERS.contains(&class));
    // One beside the servers that is Redisson's default says nothing.
    let other = common.take("nameMapper");
    let Some(setting) = other.filter(|other| !is_default(other)).or(own) else {
        return Ok(builder);
    };
    match setting.class() {
        _ if is_default(&setting) => Ok(builder),
        Some(class) => match mappers.get(class) {
            Some(mapper) => Ok(builder.name_mapper(mapper.clone())),
            None => Err(setting.wrong(&format!(
                "what the class {class} does is not known here: RedissonYaml::name_mapper tells it"
            ))),
        },
        None => Err(setting.wrong("no class, as in !<com.example.Mapper> {}")),
    }
}

/// Certificates are always checked.
fn secured(
    common: &mut Section,
    servers: &mut Section,
    ignored: &mut Vec<Ignored>,
) -> Result<(), Fault> {
    for (key, strict) in [
        ("sslVerificationMode", "STRICT"),
        ("sslEnableEndpointIdentification", "true"),
    ] {
        if let Some(setting) = either(common, servers, key)
            && setting.text()? != strict
        {
            let why = "certificates are always checked, and for whom they are";
            ignored.push(Ignored::new(setting.line, setting.key, why));
        }
    }
    Ok(())
}
