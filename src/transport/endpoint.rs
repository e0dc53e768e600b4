//! Where the server is and how to introduce oneself there.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisError,
};
use socket2::TcpKeepalive;

use super::{Refusal, Value, cmd};
use crate::config::Config;
use crate::error::Error;
use crate::transport::failure::Reason;

/// A connection for commands takes so many at once before it lets callers wait.
pub(super) const MOST_UNDER_WAY: usize = 1024;
/// An idle connection is probed after this long, then every `KEEPALIVE_PAUSE`.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_PAUSE: Duration = Duration::from_secs(5);

/// A server, and what it takes to get in.
#[derive(Clone)]
pub(crate) struct Endpoint {
    client: redis::Client,
    client_name: Option<String>,
    connect_timeout: Duration,
    response_timeout: Duration,
}

impl Endpoint {
    pub(crate) fn new(config: &Config) -> Result<Self, Error> {
        let info = connection_info(config)?;
        let client = redis::Client::open(info).map_err(|e| Error::Configuration {
            reason: e.to_string(),
        })?;
        Ok(Endpoint {
            client,
            client_name: config.client_name.clone(),
            connect_timeout: config.connect_timeout,
            response_timeout: config.response_timeout,
        })
    }

    /// The server's address, without user and password.
    pub(crate) fn address(&self) -> String {
        self.client.get_connection_info().addr().to_string()
    }

    pub(crate) fn response_timeout(&self) -> Duration {
        self.response_timeout
    }

    pub(crate) fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    /// Opens a connection for commands that has been seen to answer.
    pub(crate) async fn connect(&self) -> Result<MultiplexedConnection, Refusal> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect_timeout))
            .set_response_timeout(Some(self.response_timeout))
            .set_pipeline_buffer_size(MOST_UNDER_WAY);
        let connecting = self
            .client
            .get_multiplexed_async_connection_with_config(&config);
        let mut connection = self.limited(connecting).await?;
        if let Some(name) = &self.client_name {
            // An ACL may forbid it; the name is for the reader of CLIENT LIST only.
            let named = cmd("CLIENT").arg("SETNAME").arg(name).to_owned();
            let _ = connection.send_packed_command(&named).await;
        }
        // A server that is loading its data, or wants a password, accepts the connection all the same.
        let pong = connection.send_packed_command(&cmd("PING")).await;
        if let Err(error) = pong.and_then(Value::extract_error) {
            let refusal = Refusal::at_connect(&error);
            if refusal.reason != Reason::Permission {
                return Err(refusal);
            }
        }
        Ok(connection)
    }

    /// Opens a connection for subscriptions.
    pub(crate) async fn connect_pubsub(&self) -> Result<redis::aio::PubSub, Refusal> {
        self.limited(self.client.get_async_pubsub()).await
    }

    async fn limited<T>(
        &self,
        connecting: impl Future<Output = Result<T, RedisError>>,
    ) -> Result<T, Refusal> {
        match tokio::time::timeout(self.connect_timeout, connecting).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(Refusal::at_connect(&error)),
            Err(_) => Err(Refusal::unreachable(format!(
                "not connected within {:?}",
                self.connect_timeout
            ))),
        }
    }
}

fn connection_info(config: &Config) -> Result<ConnectionInfo, Error> {
    let info = config
        .url
        .as_str()
        .into_connection_info()
        .map_err(|error| Error::Configuration {
            // The URL itself is not repeated: it may contain a password.
            reason: format!(
                "not a Redis URL (redis://[user:password@]host[:port][/database]): {error}"
            ),
        })?;
    if matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
        return Err(Error::Configuration {
            reason: "rediss:// (TLS) is not supported yet".to_owned(),
        });
    }
    let mut redis = info
        .redis_settings()
        .clone()
        .set_lib_name("redisson-semaphore", env!("CARGO_PKG_VERSION"));
    if let Some(database) = config.database {
        redis = redis.set_db(database);
    }
    if let Some(username) = &config.username {
        redis = redis.set_username(username);
    }
    if let Some(password) = &config.password {
        redis = redis.set_password(password);
    }
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_PAUSE);
    let tcp = TcpSettings::default()
        .set_nodelay(true)
        .set_keepalive(keepalive);
    Ok(info.set_redis_settings(redis).set_tcp_settings(tcp))
}
