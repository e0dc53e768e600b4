//! The Redis server: a private one, or what `REDIS_URL` names.

use std::env;
use std::process::{Command, Stdio};

use redisson_semaphore::{Client, ClientBuilder};

use crate::Result;
use crate::control::Control;
use crate::peer::PeerArguments;
use crate::support::server::RedisServer;

pub(crate) struct Server {
    url: String,
    /// The sentinels that know the master that the URL names.
    sentinels: Vec<String>,
    /// Dropping it stops it.
    private: Option<RedisServer>,
}

impl Server {
    /// The user's server, or else a new one on a free loopback port.
    pub(crate) async fn of_user_or_private() -> Result<Server> {
        let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
        if let Some(url) = variable("REDIS_URL") {
            let sentinels = variable("REDIS_SENTINELS").unwrap_or_default();
            let sentinels = sentinels.split(',').filter(|url| !url.is_empty());
            return Ok(Server {
                url,
                sentinels: sentinels.map(str::to_owned).collect(),
                private: None,
            });
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
            sentinels: vec![],
            private: Some(server),
        })
    }

    pub(crate) fn is_private(&self) -> bool {
        self.private.is_some()
    }

    pub(crate) async fn client(&self) -> Result<Client> {
        Ok(self.builder(&self.url).connect().await?)
    }

    /// For what the demo itself looks up; of a cluster the first node that the URL names.
    pub(crate) async fn control(&self) -> Result<Control> {
        let cluster = self.url.split_once("+cluster://");
        let node = cluster.map(|(scheme, rest)| {
            let (hosts, tail) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            let first = hosts.split_once(',').map_or(hosts, |(first, _)| first);
            format!("{scheme}://{first}{tail}")
        });
        let client = self.builder(node.as_ref().unwrap_or(&self.url));
        Ok(Control::of(client.connect().await?, node.is_some()))
    }

    fn builder(&self, url: &str) -> ClientBuilder {
        let builder = Client::builder(url);
        if self.sentinels.is_empty() {
            return builder;
        }
        builder.sentinels(&self.sentinels)
    }

    pub(crate) fn peer_arguments(&self) -> Result<PeerArguments> {
        PeerArguments::of(&self.url, &self.sentinels)
    }
}
