//! Shared by the tests: a server with a client, and the requests to a peer.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redisson_semaphore::Client;
use redisson_semaphore::recipes::Units;
use serde_json::{Value, json};

use crate::layouts::{Handle, Layout, others};
use crate::support::peer::JavaPeer;
use crate::support::server::RedisServer;

use Program::{Java, Python};

pub(crate) const LIMIT: Duration = Duration::from_secs(20);
/// Peers do not announce releases: this crate looks for them.
pub(crate) const CHECK: Duration = Duration::from_millis(10);

/// A program and the unit of its times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Program {
    Python,
    Java,
}

impl Program {
    pub(crate) async fn start(self, server: &RedisServer) -> JavaPeer {
        match self {
            Python => JavaPeer::python(&server.url()).await,
            Java => JavaPeer::jedis(&server.url()).await,
        }
    }

    pub(crate) fn units(self) -> Units {
        match self {
            Python => Units::Seconds,
            Java => Units::Millis,
        }
    }
}

pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) redis: MultiplexedConnection,
    pub(crate) server: RedisServer,
}

impl World {
    pub(crate) async fn new() -> World {
        let server = RedisServer::start().await;
        World {
            client: Client::connect(server.url()).await.unwrap(),
            redis: server.connection().await,
            server,
        }
    }
}

/// The fields of a request to a peer about a semaphore.
pub(crate) fn about(layout: Layout, name: &str, limit: u32) -> Value {
    let [owners, counter, tokens] = others(name);
    let mut about = json!({"recipe": layout.recipe(), "name": name, "limit": limit});
    if layout == Layout::FairWithTokens {
        about["owners"] = json!(owners);
        about["counter"] = json!(counter);
        about["tokens"] = json!(tokens);
        about["waitMs"] = json!(50);
    }
    about
}

pub(crate) fn with(mut about: Value, field: &str, value: impl Into<Value>) -> Value {
    about[field] = value.into();
    about
}

/// A peer's acquisition.
pub(crate) async fn acquired(peer: &JavaPeer, about: &Value) -> Option<String> {
    let answer = peer.call("acquire", about.clone()).await.unwrap();
    answer.value.as_str().map(str::to_owned)
}

pub(crate) async fn released(peer: &JavaPeer, about: &Value, holder: &str) -> bool {
    let about = with(about.clone(), "holder", holder);
    peer.call("release", about).await.unwrap().value == json!(true)
}

pub(crate) async fn refreshed(peer: &JavaPeer, about: &Value, holder: &str) -> bool {
    let about = with(about.clone(), "holder", holder);
    peer.call("refresh", about).await.unwrap().value == json!(true)
}

pub(crate) async fn ids(semaphore: &Handle) -> Vec<String> {
    let holders = semaphore.holders().await.unwrap();
    let mut ids: Vec<String> = holders.iter().map(|held| held.id().to_owned()).collect();
    ids.sort();
    ids
}

pub(crate) fn sorted<const N: usize>(ids: [&str; N]) -> Vec<String> {
    let mut ids: Vec<String> = ids.into_iter().map(str::to_owned).collect();
    ids.sort();
    ids
}
