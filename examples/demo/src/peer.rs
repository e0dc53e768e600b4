//! How the JVM learns the server's address: from its arguments, or else from a configuration file like that of a service.

use std::path::{Path, PathBuf};

use redis::{ConnectionAddr, IntoConnectionInfo};
use serde_json::json;

use crate::Result;

const SENTINEL_PORT: u16 = 26379;

const FORM: &str = "REDIS_URL is to be redis:// or rediss://, or either with +cluster or +replicated; with REDIS_SENTINELS \
                    (redis://host,redis://host) it has the master's name in place of the host. Redisson, which plays along, \
                    knows no Unix sockets, and a cluster has one database";

/// The settings of the peer.
pub(crate) struct PeerArguments {
    pub(crate) url: String,
    pub(crate) more: Vec<String>,
    /// The configuration file. It contains the password, and is deleted when the peer has read it.
    file: Option<PathBuf>,
}

impl Drop for PeerArguments {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// One server, and the user that logs in there.
struct Place {
    scheme: String,
    host: String,
    /// `None` if the URL has none.
    port: Option<u16>,
    username: Option<String>,
    password: Option<String>,
    database: i64,
}

impl Place {
    fn address(&self, port: u16) -> String {
        let Place { scheme, host, .. } = self;
        format!("{scheme}://{host}:{}", self.port.unwrap_or(port))
    }
}

impl PeerArguments {
    pub(crate) fn of(url: &str, sentinels: &[String]) -> Result<PeerArguments> {
        let (kind, places) = read(url)?;
        let first = places.first().ok_or(FORM)?;
        let addresses = |places: &[Place], port: u16| -> Vec<String> {
            places.iter().map(|place| place.address(port)).collect()
        };
        let settings = match &*kind {
            "" if sentinels.is_empty() && first.database == 0 => {
                return Ok(PeerArguments::of_one(first, vec![]));
            }
            "" if sentinels.is_empty() => json!({ "singleServerConfig": {
                "address": first.address(6379), "database": first.database, "connectionMinimumIdleSize": 1,
            } }),
            "cluster" if first.database == 0 => {
                return Ok(PeerArguments::of_one(first, vec!["--cluster".to_owned()]));
            }
            "" => {
                let mut asked = Vec::new();
                for url in sentinels {
                    asked.extend(read(url)?.1);
                }
                let user = asked.first().ok_or(FORM)?;
                json!({ "sentinelServersConfig": {
                    "masterName": first.host, "sentinelAddresses": addresses(&asked, SENTINEL_PORT),
                    "sentinelUsername": user.username, "sentinelPassword": user.password,
                    "checkSentinelsList": false, "readMode": "MASTER", "subscriptionMode": "MASTER",
                    "database": first.database,
                    "masterConnectionMinimumIdleSize": 1,
                } })
            }
            "replicated" => json!({ "replicatedServersConfig": {
                "nodeAddresses": addresses(&places, 6379),
                "readMode": "MASTER", "subscriptionMode": "MASTER", "masterConnectionMinimumIdleSize": 1,
                "database": first.database,
            } }),
            _ => return Err(FORM.into()),
        };
        let mut settings = settings;
        settings["username"] = json!(first.username);
        settings["password"] = json!(first.password);
        // All JSON is YAML.
        let file = std::env::temp_dir().join(format!("demo-{}.yaml", std::process::id()));
        write(&file, &settings.to_string())?;
        let path = file
            .to_str()
            .ok_or("a path of plain characters")?
            .to_owned();
        Ok(PeerArguments {
            url: first.address(6379),
            more: vec!["--yaml".to_owned(), path],
            file: Some(file),
        })
    }

    /// The peer takes host and port, and a password apart.
    fn of_one(place: &Place, mut more: Vec<String>) -> PeerArguments {
        let mut url = place.address(6379);
        match (&place.username, &place.password) {
            (Some(user), Some(password)) => {
                url = url.replacen("://", &format!("://{user}:{password}@"), 1);
            }
            (None, Some(password)) => more.extend(["--password".to_owned(), password.clone()]),
            (_, None) => {}
        }
        PeerArguments {
            url,
            more,
            file: None,
        }
    }
}

/// The roles of a URL's servers, and where they are.
fn read(url: &str) -> Result<(String, Vec<Place>)> {
    let (scheme, rest) = url.split_once("://").ok_or(FORM)?;
    let (scheme, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
    if !matches!(scheme, "redis" | "rediss" | "valkey" | "valkeys") {
        return Err(FORM.into());
    }
    let (user, rest) = match rest.rsplit_once('@') {
        Some((user, rest)) => (format!("{user}@"), rest),
        None => (String::new(), rest),
    };
    let (hosts, tail) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let mut places = Vec::new();
    for host in hosts.split(',') {
        // An address is read in the same way with TLS and without.
        let info = format!("redis://{user}{host}{tail}").into_connection_info()?;
        let settings = info.redis_settings();
        let ConnectionAddr::Tcp(name, port) = info.addr() else {
            return Err(FORM.into());
        };
        let bare = host.rsplit(']').next().unwrap_or(host);
        places.push(Place {
            scheme: scheme.to_owned(),
            host: if name.contains(':') {
                format!("[{name}]")
            } else {
                name.clone()
            },
            port: bare.contains(':').then_some(*port),
            username: settings.username().map(str::to_owned),
            password: settings.password().map(str::to_owned),
            database: settings.db(),
        });
    }
    Ok((kind.to_owned(), places))
}

fn write(file: &Path, text: &str) -> Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(file)?;
    Ok(std::io::Write::write_all(&mut file, text.as_bytes())?)
}
