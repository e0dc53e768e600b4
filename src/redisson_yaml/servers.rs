//! Addresses, user and time limits, for each of Redisson's modes.

use std::collections::BTreeMap;
use std::time::Duration;

use super::address::{Address, Place};
use super::section::{Section, Setting};
use super::{Fault, Ignored, fault};
use crate::config::{Config, NameMapper, Protocol, ShardedPubSub};
use crate::tls::{Certificate, Tls};

/// Redisson's own, for what the file leaves open.
const TIMEOUT: Duration = Duration::from_secs(3);
const ATTEMPTS: u32 = 4;
const DELAY: Duration = Duration::from_secs(2);
/// The retry window for a file that says to retry for ever.
const LONGEST_WINDOW: Duration = Duration::from_secs(86_400);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Single,
    Sentinel,
    Cluster,
    MasterSlave,
    Replicated,
}

const MODES: [(&str, Mode); 5] = [
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

/// The settings that count: the section of the servers, and what stands beside it.
struct File<'a> {
    mode: Mode,
    common: &'a mut Section,
    servers: Section,
    addresses: Vec<Address>,
    config: Config,
    ignored: &'a mut Vec<Ignored>,
}

/// Takes all that counts out of the file.
pub(super) fn read(
    common: &mut Section,
    mappers: &BTreeMap<String, NameMapper>,
    ignored: &mut Vec<Ignored>,
) -> Result<Config, Fault> {
    for paid in PAID {
        if let Some(setting) = common.take(paid) {
            return Err(setting.wrong("a mode of Redisson PRO, which is not known here"));
        }
    }
    let (mode, mut servers) = mode(common)?;
    let (config, addresses) = places(mode, &mut servers)?;
    let mut file = File {
        mode,
        common,
        servers,
        addresses,
        config,
        ignored,
    };
    file.login()?;
    file.plain()?;
    file.retries()?;
    file.names(mappers)?;
    file.secured()?;
    file.servers.finish(file.ignored)?;
    Ok(file.config)
}

/// Redisson would take one of several.
fn mode(common: &mut Section) -> Result<(Mode, Section), Fault> {
    let mut found: Option<(&str, Mode, Section)> = None;
    for (key, mode) in MODES {
        if let Some(section) = common.section(key)? {
            if let Some((other, ..)) = found {
                return Err(section.fault(format!("{key}: there is {other} already")));
            }
            found = Some((key, mode, section));
        }
    }
    let found = found.map(|(_, mode, section)| (mode, section));
    found.ok_or_else(|| {
        let modes = MODES.map(|(key, _)| key).join(", ");
        fault(1, format!("it says nowhere where Redis is: {modes}"))
    })
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

fn places(mode: Mode, servers: &mut Section) -> Result<(Config, Vec<Address>), Fault> {
    let key = match mode {
        Mode::Single => "address",
        Mode::Sentinel => "sentinelAddresses",
        Mode::Cluster | Mode::Replicated => "nodeAddresses",
        Mode::MasterSlave => "masterAddress",
    };
    let line = servers.line(key).unwrap_or(1);
    let addresses = addresses(servers, key)?;
    let wrong = |what: &str| Err(fault(line, format!("{key}: {what}")));
    let user = |address: &Address| (address.username.clone(), address.password.clone());
    let differ = |pair: &[Address]| user(&pair[0]) != user(&pair[1]);
    if mode != Mode::Sentinel && addresses.windows(2).any(differ) {
        return wrong("some with another user or password: there is one for all");
    }
    if matches!(mode, Mode::Single | Mode::MasterSlave) && addresses.len() > 1 {
        return wrong("one address");
    }
    let mut hosts = Vec::new();
    for address in &addresses {
        match &address.place {
            Place::Tcp(host) => hosts.push(host.as_str()),
            Place::Socket(path) if mode == Mode::Single => {
                return Ok((Config::new(format!("redis+unix://{path}")), addresses));
            }
            Place::Socket(_) => return wrong("a socket is a single server's"),
        }
    }
    let hosts = hosts.join(",");
    let tls = if addresses[0].tls { "s" } else { "" };
    let config = match mode {
        Mode::Single | Mode::MasterSlave => Config::new(format!("redis{tls}://{hosts}")),
        Mode::Cluster => Config::new(format!("redis{tls}+cluster://{hosts}")),
        Mode::Replicated => Config::new(format!("redis{tls}+replicated://{hosts}")),
        Mode::Sentinel => sentinels(servers, tls, &addresses)?,
    };
    Ok((config, addresses))
}

/// Redisson reaches the master by TLS where it reaches the sentinels so.
fn sentinels(servers: &mut Section, tls: &str, addresses: &[Address]) -> Result<Config, Fault> {
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
            Some(format!("redis{tls}://{login}{host}"))
        }
        Place::Socket(_) => None,
    });
    let mut config = Config::new(format!("redis{tls}://{master}"));
    config.sentinels = Some(urls.collect());
    Ok(config)
}

impl File<'_> {
    /// A setting beside the servers' section comes before one in it, as in 4.x, but after one in an address. 3.x knows only those in the
    /// section.
    fn either(&mut self, key: &str) -> Option<Setting> {
        let own = self.servers.take(key);
        self.common.take(key).or(own)
    }

    fn ignore(&mut self, setting: Setting, why: &str) {
        let ignored = Ignored::new(setting.line, setting.key, why);
        self.ignored.push(ignored);
    }

    fn login(&mut self) -> Result<(), Fault> {
        let user = self.either("username");
        let username = user.as_ref().map(Setting::text).transpose()?;
        let password = match self.either("password") {
            Some(setting) if setting.text()?.starts_with("{aes}") => {
                return Err(setting.wrong("encrypted, as only Redisson PRO can read it"));
            }
            Some(setting) => Some(setting.text()?),
            None => None,
        };
        // Those of sentinels are for them.
        let own = self.addresses.first();
        let own = own.filter(|_| self.mode != Mode::Sentinel);
        let username = own.and_then(|own| own.username.clone()).or(username);
        let password = own.and_then(|own| own.password.clone()).or(password);
        if self.mode == Mode::Sentinel {
            self.sentinel_login(password.clone())?;
        }
        match (password, user) {
            (Some(password), _) => {
                self.config.username = username;
                self.config.password = Some(password);
            }
            (None, Some(user)) => self.ignore(
                user,
                "there is no password, and Redisson does not log in without one",
            ),
            (None, None) => {}
        }
        Ok(())
    }

    /// Redisson logs in to sentinels only where they want that: with the servers' `password` where they have none of their own, but
    /// never as the servers' user.
    fn sentinel_login(&mut self, password: Option<String>) -> Result<(), Fault> {
        let username = self.servers.get("sentinelUsername", Setting::text)?;
        let own = self.servers.get("sentinelPassword", Setting::text)?;
        self.config.sentinel_login = own.or(password).map(|password| (username, password));
        Ok(())
    }

    /// The settings that mean here just what they mean there.
    fn plain(&mut self) -> Result<(), Fault> {
        let protocol = self.either("protocol");
        let (config, servers, common) = (&mut self.config, &mut self.servers, &mut *self.common);
        config.client_name = servers.get("clientName", Setting::text)?;
        config.database = servers.get("database", Setting::number)?.map(Into::into);
        if let Some(setting) = protocol {
            let words = [("RESP2", Protocol::Resp2), ("RESP3", Protocol::Resp3)];
            config.protocol = Some(setting.word(&words)?);
        }
        servers.put("connectTimeout", Setting::time, &mut config.connect_timeout)?;
        let watchdog = &mut config.lock_watchdog_timeout;
        common.put("lockWatchdogTimeout", Setting::time, watchdog)?;
        let fair = &mut config.fair_lock_wait_timeout;
        common.put("fairLockWaitTimeout", Setting::time, fair)?;
        if self.mode == Mode::Cluster {
            servers.put("scanInterval", Setting::time, &mut config.scan_interval)?;
            if let Some(setting) = servers.take("shardedSubscriptionMode") {
                config.sharded_pubsub = setting.word(&[
                    ("AUTO", ShardedPubSub::Auto),
                    ("ON", ShardedPubSub::On),
                    ("OFF", ShardedPubSub::Off),
                ])?;
            }
        }
        Ok(())
    }

    /// Calls are repeated for as long as Redisson would try.
    fn retries(&mut self) -> Result<(), Fault> {
        let timeout = self.servers.get("timeout", Setting::time)?;
        let attempts = self.servers.get("retryAttempts", Setting::number)?;
        let interval = self.servers.get("retryInterval", Setting::time)?;
        let delay = self.servers.get("retryDelay", Setting::delay)?.or(interval);
        if attempts.is_some() || delay.is_some() {
            let (attempts, timeout) = (attempts.unwrap_or(ATTEMPTS), timeout.unwrap_or(TIMEOUT));
            let tries = timeout.saturating_mul(attempts.saturating_add(1));
            let pauses = delay.unwrap_or(DELAY).saturating_mul(attempts);
            self.config.retry_window = tries.saturating_add(pauses).min(LONGEST_WINDOW);
        }
        self.config.response_timeout = timeout.unwrap_or(self.config.response_timeout);
        Ok(())
    }

    fn names(&mut self, mappers: &BTreeMap<String, NameMapper>) -> Result<(), Fault> {
        let own = self.servers.take("nameMapper");
        let is_default =
            |setting: &Setting| (setting.class()).is_some_and(|class| MAPPERS.contains(&class));
        // One beside the servers that is Redisson's default says nothing.
        let other = self
            .common
            .take("nameMapper")
            .filter(|other| !is_default(other));
        let Some(setting) = other.or(own).filter(|setting| !is_default(setting)) else {
            return Ok(());
        };
        let Some(class) = setting.class() else {
            return Err(setting.wrong("no class, as in !<com.example.Mapper> {}"));
        };
        let mapper = mappers.get(class).ok_or_else(|| {
            setting.wrong(&format!(
                "what the class {class} does is not known here: RedissonYaml::name_mapper tells it"
            ))
        })?;
        self.config.name_mapper = mapper.clone();
        Ok(())
    }

    fn secured(&mut self) -> Result<(), Fault> {
        for (key, strict) in [
            ("sslVerificationMode", "STRICT"),
            ("sslEnableEndpointIdentification", "true"),
        ] {
            if let Some(setting) = self.either(key)
                && setting.text()? != strict
            {
                self.ignore(
                    setting,
                    "certificates are always checked, and for whom they are",
                );
            }
        }
        let (authorities, both) = (self.pem("sslTruststore")?, self.pem("sslKeystore")?);
        if authorities.is_some() || both.is_some() {
            let certificate = both.map(|both| Certificate {
                chain: both.clone(),
                key: both,
            });
            self.config.tls = Some(Tls {
                authorities,
                certificate,
                server_name: None,
            });
        }
        Ok(())
    }

    /// Certificates in PEM are used. Java's key stores are not read.
    fn pem(&mut self, key: &str) -> Result<Option<Vec<u8>>, Fault> {
        let Some(setting) = self.either(key) else {
            return Ok(None);
        };
        if !self.addresses.iter().any(|address| address.tls) {
            self.ignore(setting, "no address is by TLS");
            return Ok(None);
        }
        let url = setting.text()?;
        let path = url.strip_prefix("file:").unwrap_or(&url);
        let path = path.strip_prefix("//").unwrap_or(path);
        let bytes = std::fs::read(path)
            .map_err(|error| setting.wrong(&format!("the file cannot be read: {error}")))?;
        if !bytes.windows(11).any(|part| part == b"-----BEGIN ") {
            self.ignore(
                setting,
                "Java's key stores are not read: name a file in PEM, or give ClientBuilder::tls one",
            );
            return Ok(None);
        }
        Ok(Some(bytes))
    }
}
