//! How connections to the server are opened.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, RedisConnectionInfo};

use super::Refusal;
use super::address::{self, Address, Login, Target};
use super::handshake::introduce;
use super::socket::{Socket, Traffic};
use super::tls::{self, Tls};
use crate::config::Config;
use crate::error::Error;

/// A connection for commands takes so many at once before it lets callers wait.
pub(super) const MOST_UNDER_WAY: usize = 1024;

/// A server, and what it takes to get in.
#[derive(Clone)]
pub(crate) struct Endpoint {
    address: Address,
    /// The same as text.
    printed: String,
    tls: Option<Tls>,
    login: Login,
    client_name: Option<String>,
    connect_timeout: Duration,
    response_timeout: Duration,
}

/// A connection for commands, before anybody uses it.
pub(super) struct Opened<Driver> {
    pub(super) connection: MultiplexedConnection,
    /// Has to be polled for the connection to work; ends when the connection has.
    pub(super) driver: Driver,
    pub(super) traffic: Arc<Traffic>,
}

impl Endpoint {
    pub(crate) fn new(config: &Config) -> Result<Self, Error> {
        let Target {
            address,
            tls,
            login,
        } = address::read(config)?;
        let tls = secured(tls, config.tls.as_ref());
        Ok(Endpoint {
            printed: address.to_string(),
            address,
            tls: tls.map_err(|reason| Error::Configuration { reason })?,
            login,
            client_name: config.client_name.clone(),
            connect_timeout: config.connect_timeout,
            response_timeout: config.response_timeout,
        })
    }

    /// The server's address, without user and password.
    pub(crate) fn address(&self) -> &str {
        &self.printed
    }

    pub(crate) fn response_timeout(&self) -> Duration {
        self.response_timeout
    }

    pub(crate) fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    /// Opens a connection for commands to a server that has been seen to answer.
    pub(super) async fn connect(
        &self,
    ) -> Result<Opened<impl Future<Output = ()> + Send + use<>>, Refusal> {
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(Some(self.response_timeout))
            .set_pipeline_buffer_size(MOST_UNDER_WAY);
        self.limited(async {
            let socket = self.open().await?;
            let Socket { stream, traffic } = socket;
            let (connection, driver) =
                MultiplexedConnection::new_with_config(&INTRODUCED, stream, config)
                    .await
                    .map_err(|error| Refusal::at_connect(&error))?;
            Ok(Opened {
                connection,
                driver,
                traffic,
            })
        })
        .await
    }

    /// Opens a connection for subscriptions.
    pub(super) async fn connect_pubsub(&self) -> Result<PubSub, Refusal> {
        self.limited(async {
            let socket = self.open().await?;
            PubSub::new(&INTRODUCED, socket.stream)
                .await
                .map_err(|error| Refusal::at_connect(&error))
        })
        .await
    }

    async fn open(&self) -> Result<Socket, Refusal> {
        let socket = Socket::connect(&self.address, self.tls.as_ref()).await;
        let mut socket = socket.map_err(|error| tls::refusal(&error))?;
        introduce(&mut socket.stream, &self.login, self.client_name.as_deref()).await?;
        Ok(socket)
    }

    async fn limited<T>(
        &self,
        connecting: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<T, Refusal> {
        let connected = tokio::time::timeout(self.connect_timeout, connecting).await;
        connected.unwrap_or_else(|_| {
            let limit = self.connect_timeout;
            // One that does not may wait for the rest of what it takes for a command.
            let hint = match self.tls {
                Some(_) => " (does the server speak TLS at this port?)",
                None => "",
            };
            let detail = format!("not connected within {limit:?}{hint}");
            Err(Refusal::unreachable(detail))
        })
    }
}

/// How TLS is spoken where a URL `wants` it.
fn secured(wants: bool, settings: Option<&crate::tls::Tls>) -> Result<Option<Tls>, String> {
    match (wants, settings) {
        (true, Some(settings)) => Tls::new(settings).map(Some),
        (true, None) => Tls::new(&crate::tls::Tls::default()).map(Some),
        (false, None) => Ok(None),
        (false, Some(_)) => {
            Err("there are settings of TLS, but the URL is not rediss://".to_owned())
        }
    }
}

/// What the redis crate is told to say on a connection where everything has been said.
static INTRODUCED: LazyLock<RedisConnectionInfo> =
    LazyLock::new(|| RedisConnectionInfo::default().set_skip_set_lib_name());
