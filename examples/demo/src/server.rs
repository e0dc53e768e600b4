//! The Redis server: a private one, or the one that `REDIS_URL` names.

use std::env;
use std::process::{Command, Stdio};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ConnectionAddr, IntoConnectionInfo};

use crate::Result;
use crate::support::server::RedisServer;

const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Server {
    url: String,
    /// Dropping it stops it.
    private: Option<RedisServer>,
}

/// How the Java peer reaches the server.
pub(crate) struct PeerArguments {
    pub(crate) url: String,
    pub(crate) more: Vec<String>,
}

impl Server {
    /// The user's server, or else a new one on a free loopback port.
    pub(crate) async fn of_user_or_private() -> Result<Server> {
        if let Some(url) = env::var("REDIS_URL").ok().filter(|url| !url.is_empty()) {
            return Ok(Server { url, private: None });
        }
        let found = Command::new("redis-server")
            .arg("--version")
            .stdout(Stdio::null())
            .status();
        if found.is_err() {
            return Err("redis-server is missing: run `make setup`, or give a REDIS_URL".into());
        }
        let server = RedisServer::start().await;
        Ok(Server {
            url: server.url(),
            private: Some(server),
        })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn is_private(&self) -> bool {
        self.private.is_some()
    }

    /// A plain connection, for what the demo itself looks up.
    pub(crate) async fn connection(&self) -> Result<MultiplexedConnection> {
        let client = redis::Client::open(self.url())?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        Ok(client
            .get_multiplexed_async_connection_with_config(&config)
            .await?)
    }

    /// The peer takes host and port, and a password apart; it knows database 0 only.
    pub(crate) fn peer_arguments(&self) -> Result<PeerArguments> {
        let info = self.url().into_connection_info()?;
        let (ConnectionAddr::Tcp(host, port), 0) = (info.addr(), info.redis_settings().db()) else {
            return Err(
                "REDIS_URL must be redis://[[user]:password@]host[:port], database 0".into(),
            );
        };
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host.clone()
        };
        let credentials = info.redis_settings();
        let (user, more) = match (credentials.username(), credentials.password()) {
            (Some(user), Some(password)) => (format!("{user}:{password}@"), vec![]),
            (None, Some(password)) => (
                String::new(),
                vec!["--password".to_owned(), password.to_owned()],
            ),
            (_, None) => (String::new(), vec![]),
        };
        Ok(PeerArguments {
            url: format!("redis://{user}{host}:{port}"),
            more,
        })
    }
}

/// As the server tells it: `7.0.15`.
pub(crate) async fn version(connection: &mut MultiplexedConnection) -> Result<String> {
    let info: String = redis::cmd("INFO")
        .arg("server")
        .query_async(connection)
        .await
        .map_err(|error| format!("INFO: {error}"))?;
    let version = info
        .lines()
        .find_map(|line| line.strip_prefix("redis_version:"));
    Ok(version.unwrap_or("of unknown version").trim().to_owned())
}
