//! The options of every command: the server's address, and the user.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use redisson_semaphore::{Client, ClientBuilder, NameMapper, RedissonYaml, Tls};

use crate::exit::Failure;
use crate::span;

/// Where passwords are looked for when neither a file nor the URL has one.
const PASSWORDS: [&str; 2] = ["REDIS_PASSWORD", "REDISCLI_AUTH"];

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connect {
    /// redis://[[user]:password@]host[:port][/database], rediss:// for TLS, redis+unix:///path, redis+cluster:// or redis+replicated:// with several hosts
    #[arg(
        long,
        global = true,
        env = "REDIS_URL",
        hide_env_values = true,
        default_value = "redis://127.0.0.1:6379"
    )]
    url: String,

    /// Connect as this YAML file of Redisson's says, in place of the URL and the sentinels. How long is waited, rsem says itself
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "RSEM_REDISSON_YAML",
        conflicts_with = "sentinel"
    )]
    redisson_yaml: Option<PathBuf>,

    /// Ask this sentinel, redis://host[:port], for the master; may be given several times. The URL then has the master's name
    /// in place of host and port
    #[arg(long, global = true, value_name = "URL")]
    sentinel: Vec<String>,

    /// Trust the authorities of this PEM file, and no others
    #[arg(long, global = true, value_name = "FILE")]
    tls_ca: Option<PathBuf>,

    /// The certificate, in PEM, to show to the server
    #[arg(long, global = true, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// Its key, in PEM, without a passphrase
    #[arg(long, global = true, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// The name that the server's certificate is for, where it is not the host of the URL
    #[arg(long, global = true, value_name = "NAME")]
    tls_server_name: Option<String>,

    /// The user of the server's ACL
    #[arg(long, global = true, env = "REDIS_USER", hide_env_values = true)]
    user: Option<String>,

    /// The first line of this file is the password. Without it: the URL's, or that of the variable REDIS_PASSWORD or
    /// REDISCLI_AUTH. There is no option for the password itself: everybody can read command lines
    #[arg(long, global = true, value_name = "FILE")]
    password_file: Option<PathBuf>,

    /// The database; otherwise the URL's, or 0
    #[arg(long, global = true, value_name = "NUMBER")]
    database: Option<u32>,

    /// Put in front of every name, as the NameMapper of the services does
    #[arg(
        long,
        global = true,
        env = "RSEM_PREFIX",
        default_value = "",
        hide_default_value = true
    )]
    prefix: String,

    /// The name that CLIENT LIST shows
    #[arg(long, global = true, value_name = "NAME", default_value = "rsem")]
    client_name: String,

    /// How long the first connection may take
    #[arg(long, global = true, value_name = "TIME", value_parser = span::parse, default_value = "10s")]
    connect_timeout: Duration,

    /// How long one request waits for its reply before it is repeated on a new connection
    #[arg(long, global = true, value_name = "TIME", value_parser = span::parse, default_value = "3s")]
    pub(crate) response_timeout: Duration,

    /// How long a call goes on while Redis does not answer
    #[arg(long, global = true, value_name = "TIME", value_parser = span::parse, default_value = "30s")]
    retry_window: Duration,
}

impl Connect {
    pub(crate) async fn client(&self) -> Result<Client, Failure> {
        Ok(self.builder()?.connect().await?)
    }

    /// The settings, for a command that has more of them.
    pub(crate) fn builder(&self) -> Result<ClientBuilder, Failure> {
        let builder = match &self.redisson_yaml {
            Some(file) => RedissonYaml::file(file)?.builder()?.0,
            None => Client::builder(&self.url),
        };
        let mut builder = builder
            .client_name(&self.client_name)
            .connect_timeout(self.connect_timeout)
            .response_timeout(self.response_timeout)
            .retry_window(self.retry_window);
        if !self.prefix.is_empty() {
            builder = builder.name_mapper(NameMapper::prefix(&self.prefix));
        }
        if let Some(user) = &self.user {
            builder = builder.username(user);
        }
        if let Some(password) = self.password()? {
            builder = builder.password(password);
        }
        if let Some(database) = self.database {
            builder = builder.database(database);
        }
        if !self.sentinel.is_empty() {
            builder = builder.sentinels(&self.sentinel);
        }
        // TLS settings without TLS are a mistake, which the client reports.
        if let Some(tls) = self.tls()? {
            builder = builder.tls(tls);
        }
        Ok(builder)
    }

    /// The name as it stands in Redis.
    pub(crate) fn mapped(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn tls(&self) -> Result<Option<Tls>, Failure> {
        let given = [&self.tls_ca, &self.tls_cert]
            .iter()
            .any(|file| file.is_some());
        if !given && self.tls_server_name.is_none() {
            return Ok(None);
        }
        let mut tls = Tls::new();
        if let Some(file) = &self.tls_ca {
            tls = tls.trust_only(read("--tls-ca", file)?);
        }
        if let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) {
            tls = tls.client_certificate(read("--tls-cert", certificate)?, read("--tls-key", key)?);
        }
        if let Some(name) = &self.tls_server_name {
            tls = tls.server_name(name);
        }
        Ok(Some(tls))
    }

    /// The password to use in place of the URL's.
    fn password(&self) -> Result<Option<String>, Failure> {
        if let Some(file) = &self.password_file {
            let text = read("--password-file", file)?;
            let text = String::from_utf8_lossy(&text);
            return Ok(Some(text.lines().next().unwrap_or_default().to_owned()));
        }
        if self.redisson_yaml.is_some() || has_password(&self.url) {
            return Ok(None);
        }
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Ok(PASSWORDS.into_iter().find_map(set))
    }
}

fn read(option: &str, file: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(file)
        .map_err(|error| Failure::usage(format!("{option} {}: {error}", file.display())))
}

fn has_password(url: &str) -> bool {
    let (_, rest) = url.split_once("://").unwrap_or_default();
    let (place, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = place.split('/').next().unwrap_or_default();
    let in_authority = (authority.rsplit_once('@')).is_some_and(|(login, _)| login.contains(':'));
    in_authority || parameters.split('&').any(|pair| pair.starts_with("pass="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_the_url_is_seen() {
        for url in [
            "redis://:p@h",
            "rediss://u:p@h:1/2",
            "redis+unix:///r.sock?db=1&pass=p",
        ] {
            assert!(has_password(url), "{url}");
        }
        for url in [
            "redis://h:1",
            "redis://u@h:1",
            "redis://[::1]:1",
            "redis+unix:///a:b@c",
            "",
            "h",
        ] {
            assert!(!has_password(url), "{url}");
        }
    }
}
