//! How connections to the server are opened.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use redis::RedisResult;

use super::address::{self, Address, Kind, Login, Target};
use super::confirm::Replicas;
use super::handshake::{Entered, Entry, Server, exchange};
use super::sentinel::{Sentinel, Sentinels};
use super::tls::Tls;
use super::wire::{Patience, Wire};
use super::{Command, Refusal, Value};
use crate::config::Config;
use crate::credentials::{Credentials, CredentialsProvider};
use crate::error::Error;
use crate::outside::Stream;

/// Replicas are waited for so long at a time: what comes behind is held up meanwhile, renewals of what lasts a second among it.
const LONGEST_WAIT: Duration = Duration::from_millis(150);

/// A server that is no master, or not there, is tried again after this as long as another one says nothing at all.
const AGAIN: Duration = Duration::from_millis(200);

/// A sentinel may take this part of the connect time-out to answer.
const PATIENCE_SHARE: u32 = 4;

/// A server, and what it takes to get in.
#[derive(Clone)]
pub(crate) struct Endpoint {
    place: Place,
    /// The same as text.
    printed: String,
    tls: Option<Tls>,
    login: Login,
    credentials: Option<Arc<dyn CredentialsProvider>>,
    client_name: Option<String>,
    pub(super) connect_timeout: Duration,
    pub(super) patience: Patience,
    pub(super) scan_interval: Duration,
    pub(super) replicas: Option<Replicas>,
    /// It is no node of a cluster, where a replica redirects its clients. Such a server can become a replica and go on answering reads,
    /// so its role is asked for.
    pub(super) alone: bool,
}

/// Where the server is.
#[derive(Clone)]
enum Place {
    Fixed(Address),
    /// Wherever the master is.
    Sentinels(Arc<Sentinels>),
    /// One of these is the master, as they say themselves.
    Replicated(Arc<[Address]>),
    /// Any of these knows the nodes of a cluster; each of those has an endpoint of its own.
    Cluster(Arc<[Address]>),
}

/// A connection for commands, before its first use.
pub(super) struct Opened {
    pub(super) wire: Wire,
    /// Where it leads.
    pub(super) server: Server,
    /// Has to be polled for the connection to work; ends when the connection has.
    pub(super) driver: BoxFuture<'static, ()>,
}

impl Endpoint {
    pub(crate) fn new(config: &Config) -> Result<Self, Error> {
        Self::read(config).map_err(|reason| Error::Configuration { reason })
    }

    fn read(config: &Config) -> Result<Self, String> {
        let Target {
            addresses,
            kind,
            tls,
            login,
        } = address::read(config)?;
        let secured = |wanted: bool, settings: Option<&crate::tls::Tls>| {
            let default = crate::tls::Tls::default();
            let settings = settings.or(config.tls.as_ref()).unwrap_or(&default);
            wanted.then(|| Tls::new(settings)).transpose()
        };
        let mut wanted = tls;
        let place = match &config.sentinels {
            None => match kind {
                Kind::One => Place::Fixed(one(addresses)?),
                Kind::Cluster => Place::Cluster(addresses.into()),
                Kind::Replicated => Place::Replicated(addresses.into()),
            },
            Some(_) if kind != Kind::One => {
                return Err("several servers have no sentinels: one or the other".to_owned());
            }
            Some(urls) => {
                let master = address::master_of(&config.url, &one(addresses)?)?;
                let mut sentinels = Vec::new();
                for url in urls {
                    let target = address::read_sentinel(url)?;
                    wanted |= target.tls;
                    let has_login = target.login.password.is_some();
                    let login = config.sentinel_login.clone().filter(|_| !has_login);
                    sentinels.push(Sentinel {
                        address: one(target.addresses)?,
                        tls: secured(target.tls, config.sentinel_tls.as_ref())?,
                        login_if_wanted: login.map(|(username, password)| Login {
                            username,
                            password: Some(password),
                            ..target.login.clone()
                        }),
                        login: target.login,
                    });
                }
                if sentinels.is_empty() {
                    return Err("there is no sentinel to ask".to_owned());
                }
                let patience = config.connect_timeout / PATIENCE_SHARE;
                Place::Sentinels(Arc::new(Sentinels::new(master, sentinels, patience)))
            }
        };
        if !wanted && (config.tls.is_some() || config.sentinel_tls.is_some()) {
            let problem = "there are settings of TLS, but no URL is rediss://";
            return Err(problem.to_owned());
        }
        Ok(Endpoint {
            printed: match &place {
                Place::Fixed(address) => address.to_string(),
                Place::Sentinels(sentinels) => sentinels.printed(),
                Place::Cluster(seeds) => format!("the cluster of {}", list(seeds)),
                Place::Replicated(servers) => format!("the master of {}", list(servers)),
            },
            alone: !matches!(place, Place::Cluster(_)),
            place,
            tls: secured(tls, None)?,
            login,
            credentials: config.credentials.clone(),
            client_name: config.client_name.clone(),
            connect_timeout: config.connect_timeout,
            patience: Patience {
                response_timeout: config.response_timeout,
                retry_window: config.retry_window,
            },
            scan_interval: config.scan_interval,
            replicas: config.replicas.map(|count| Replicas {
                count,
                // Leases are renewed on the same connection.
                patience: (config.response_timeout / 2)
                    .min(config.lock_watchdog_timeout / 6)
                    .min(LONGEST_WAIT),
            }),
        })
    }

    /// The nodes that may be asked first about a cluster; none where there is no cluster.
    pub(super) fn seeds(&self) -> Option<&[Address]> {
        match &self.place {
            Place::Cluster(seeds) => Some(seeds),
            _ => None,
        }
    }

    /// One node of the cluster.
    pub(super) fn at(&self, address: &Address) -> Self {
        Endpoint {
            place: Place::Fixed(address.clone()),
            printed: address.to_string(),
            ..self.clone()
        }
    }

    /// Asks on a connection that is closed again; each answer may be a refusal.
    pub(super) async fn ask(
        &self,
        questions: &[Command],
    ) -> Result<Vec<Result<Value, Refusal>>, Refusal> {
        let asking = async {
            let (_, mut stream) = self.open().await?;
            let packed: Vec<_> = questions.iter().map(Command::packed).cloned().collect();
            exchange(&mut stream, &packed).await
        };
        let answer = |answer: RedisResult<redis::Value>| match answer {
            Ok(value) => Ok(Value::from(value)),
            Err(error) => Err(Refusal::at_connect(&error)),
        };
        let answers = self.limited(asking).await?;
        Ok(answers.into_iter().map(answer).collect())
    }

    /// Finds out by itself when the server is another one, as long as this is polled.
    pub(super) async fn watch(&self) {
        if let Place::Sentinels(sentinels) = &self.place {
            sentinels.watch().await;
        }
    }

    /// Returns when the server is known to be another one than that at `address`.
    pub(super) async fn until_not(&self, address: &Address) {
        match &self.place {
            Place::Sentinels(sentinels) => sentinels.until_not(address).await,
            _ => std::future::pending().await,
        }
    }

    /// The server's address, without user and password.
    pub(crate) fn address(&self) -> &str {
        &self.printed
    }

    /// Opens a connection for commands to a server that has been seen to answer.
    pub(super) async fn connect(&self) -> Result<Opened, Refusal> {
        self.limited(async {
            let (server, stream) = self.open().await?;
            let opened = Wire::new(stream, self.patience).await;
            let (wire, driver) = opened.map_err(|error| Refusal::at_connect(&error))?;
            Ok(Opened {
                wire,
                server,
                driver,
            })
        })
        .await
    }

    /// Opens a connection for messages to `server`, where commands go: elsewhere they would not be heard.
    pub(super) async fn connect_to(&self, server: &Server) -> Result<Box<dyn Stream>, Refusal> {
        self.limited(async {
            let login = self.login().await?;
            let (_, stream) = self.enter(&server.address, Some(server), &login).await?;
            Ok(stream)
        })
        .await
    }

    async fn open(&self) -> Result<Entered, Refusal> {
        let login = self.login().await?;
        match &self.place {
            Place::Fixed(address) => self.enter(address, None, &login).await,
            Place::Sentinels(sentinels) => {
                let address = sentinels.locate().await?;
                self.enter(&address, None, &login).await
            }
            Place::Replicated(servers) => self.open_master(servers, &login).await,
            Place::Cluster(_) => Err(Refusal::unreachable("a cluster is no server")),
        }
    }

    /// With `found` for messages: there and nowhere else.
    async fn enter(
        &self,
        address: &Address,
        found: Option<&Server>,
        login: &Login,
    ) -> Result<Entered, Refusal> {
        let entry = Entry {
            address,
            peer: found.and_then(|server| server.peer),
            tls: self.tls.as_ref(),
            login,
            client_name: self.client_name.as_deref(),
            master: !matches!(self.place, Place::Fixed(_)),
            replicas: self.replicas.is_some() && found.is_none(),
        };
        tokio::select! {
            biased;
            entered = entry.enter() => entered,
            // One that is gone may take long to be found so.
            () = self.until_not(address) => {
                Err(Refusal::unreachable(format!("{address} is not the master any more")))
            }
        }
    }

    /// All are tried at once, as one that is gone may take long to be found so; and again as long as that takes: another one may become
    /// the master meanwhile.
    async fn open_master(&self, servers: &[Address], login: &Login) -> Result<Entered, Refusal> {
        let silent = AtomicUsize::new(servers.len());
        let silent = &silent;
        let entering = servers.iter().map(|address| async move {
            let mut entered = self.enter(address, None, login).await;
            silent.fetch_sub(1, Ordering::Relaxed);
            while entered.is_err() && silent.load(Ordering::Relaxed) > 0 {
                tokio::time::sleep(AGAIN).await;
                entered = self.enter(address, None, login).await;
            }
            entered.map_err(|refusal| refusal.by(address))
        });
        let mut entering: FuturesUnordered<_> = entering.collect();
        let mut refused: Option<Refusal> = None;
        while let Some(entered) = entering.next().await {
            match entered {
                Ok(master) => return Ok(master),
                // That one is a replica says least.
                Err(refusal) if refused.as_ref().is_none_or(Refusal::may_pass) => {
                    refused = Some(refusal);
                }
                Err(_) => {}
            }
        }
        Err(refused.unwrap_or_else(|| Refusal::unreachable("there is no server to ask")))
    }

    /// As it is at this moment.
    async fn login(&self) -> Result<Login, Refusal> {
        let mut login = self.login.clone();
        let Some(provider) = &self.credentials else {
            return Ok(login);
        };
        // It is the user's: whatever it does, connections come back.
        let asked = AssertUnwindSafe(async { provider.credentials().await });
        let trouble = match asked.catch_unwind().await {
            Ok(Ok(Credentials { username, password })) => {
                (login.username, login.password) = (username, Some(password));
                return Ok(login);
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "their provider has panicked".to_owned(),
        };
        Err(Refusal::unreachable(format!("no credentials: {trouble}")))
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

fn list(addresses: &[Address]) -> String {
    let all: Vec<_> = addresses.iter().map(Address::to_string).collect();
    all.join(", ")
}

fn one(addresses: Vec<Address>) -> Result<Address, String> {
    let first = addresses.into_iter().next();
    first.ok_or_else(|| "the URL has no host".to_owned())
}
