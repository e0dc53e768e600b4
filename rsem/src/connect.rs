//! Where Redis is and who comes in: the options that every command has.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ConnectionInfo, IntoConnectionInfo};
use redisson_semaphore::{Client, ClientBuilder, NameMapper};

use crate::exit::Failure;
use crate::span;

/// Where passwords are looked for when neither a file nor the URL has one.
const PASSWORDS: [&str; 2] = ["REDIS_PASSWORD", "REDISCLI_AUTH"];

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connect {
    /// redis://[[user]:password@]host[:port][/database] or redis+unix:///path
    #[arg(
        long,
        global = true,
        env = "REDIS_URL",
        hide_env_values = true,
        default_value = "redis://127.0.0.1:6379"
    )]
    url: String,

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

    /// What CLIENT LIST shows
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
    /// The library's client, for everything that changes something.
    pub(crate) async fn client(&self) -> Result<Client, Failure> {
        Ok(self.builder()?.connect().await?)
    }

    /// The settings, for a command that has more of them.
    pub(crate) fn builder(&self) -> Result<ClientBuilder, Failure> {
        let mut builder = Client::builder(&self.url)
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
        Ok(builder)
    }

    /// A plain connection, for commands that only look: what they ask for is no operation of the library's objects.
    pub(crate) async fn plain(&self) -> Result<MultiplexedConnection, Failure> {
        let info = self.info()?;
        let mut settings = info.redis_settings().clone();
        if let Some(user) = &self.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = self.password()? {
            settings = settings.set_password(password);
        }
        if let Some(database) = self.database {
            settings = settings.set_db(database.into());
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect_timeout))
            .set_response_timeout(Some(self.response_timeout));
        let client =
            redis::Client::open(info.set_redis_settings(settings.set_skip_set_lib_name()))?;
        let mut connection = client
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        // A server that refuses the name, or the command, is none the worse for it.
        let _: redis::RedisResult<()> = redis::cmd("CLIENT")
            .arg(&["SETNAME", &self.client_name])
            .query_async(&mut connection)
            .await;
        Ok(connection)
    }

    /// As it stands in Redis.
    pub(crate) fn mapped(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn info(&self) -> Result<ConnectionInfo, Failure> {
        // The error does not repeat the URL: there may be a password in it.
        self.url
            .as_str()
            .into_connection_info()
            .map_err(|error| Failure::usage(format!("--url: {error}")))
    }

    /// The password to use in place of the URL's.
    fn password(&self) -> Result<Option<String>, Failure> {
        if let Some(file) = &self.password_file {
            let text = std::fs::read_to_string(file)
                .map_err(|error| Failure::usage(format!("--password-file {file:?}: {error}")))?;
            return Ok(Some(text.lines().next().unwrap_or_default().to_owned()));
        }
        let in_url = (self.info()).is_ok_and(|info| info.redis_settings().password().is_some());
        if in_url {
            return Ok(None);
        }
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Ok(PASSWORDS.into_iter().find_map(set))
    }
}
