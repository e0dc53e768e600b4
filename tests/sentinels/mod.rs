//! A master with two replicas, and three sentinels over them, which require a password. Each test program uses a part of
//! this module.
#![allow(dead_code)]

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redisson_semaphore::{ClientBuilder, RSemaphore, Result};
use tokio::task::JoinHandle;

use crate::support::acl::set_user;
use crate::support::clients::{LIMIT, builder};
use crate::support::server::RedisServer;
use crate::support::waiters::{channel, until, until_linked};

pub(crate) const MASTER: &str = "mymaster";
/// The name of the code under test at the servers.
pub(crate) const CLIENT: &str = "under-test";
const PATIENCE: Duration = Duration::from_secs(30);

/// The rights that a client of the crate needs at a sentinel, and no others.
const READER: &str = "reader on >read resetkeys resetchannels &+promoted-slave &+switch-master &+monitor -@all \
                      +sentinel|get-master-addr-by-name +sentinel|master +subscribe +ping";

pub(crate) struct Deployment {
    /// The first master, and its replicas.
    pub(crate) servers: Vec<RedisServer>,
    pub(crate) sentinels: Vec<RedisServer>,
}

impl Deployment {
    pub(crate) async fn start() -> Deployment {
        let master = data_server(RedisServer::options()).start().await;
        let mut servers = vec![];
        for _ in 0..2 {
            let replica = data_server(RedisServer::options()).replica_of(&master);
            servers.push(replica.start().await);
        }
        for replica in &servers {
            until_linked(&mut replica.connection().await).await;
        }
        servers.insert(0, master);
        let mut sentinels = vec![];
        for _ in 0..3 {
            let sentinel = sentinel().start().await;
            monitor(&sentinel, MASTER, servers[0].port(), "sentinel", 2).await;
            sentinels.push(sentinel);
        }
        let deployment = Deployment { servers, sentinels };
        for sentinel in &deployment.sentinels {
            until("the sentinels know each other", PATIENCE, async || {
                let known = details(sentinel).await;
                let has = |key: &str, value: &str| {
                    known
                        .windows(2)
                        .any(|pair| pair[0] == key && pair[1] == value)
                };
                has("num-other-sentinels", "2") && has("num-slaves", "2") && has("flags", "master")
            })
            .await;
        }
        deployment
    }

    /// Settings for a client of the deployment.
    pub(crate) fn builder(&self) -> ClientBuilder {
        builder(format!("redis://{MASTER}"))
            .sentinels(self.sentinels.iter().map(url))
            .retry_window(PATIENCE)
            .client_name(CLIENT)
    }

    /// The same settings for Redisson.
    pub(crate) fn yaml(&self) -> String {
        let addresses = self.sentinels.iter().map(RedisServer::url);
        yaml(MASTER, &addresses.collect::<Vec<_>>(), "sentinel")
    }

    /// The index of the master among the servers, as a sentinel reports it.
    pub(crate) async fn master(&self) -> usize {
        let address: (String, u16) = redis::cmd("SENTINEL")
            .arg(&["GET-MASTER-ADDR-BY-NAME", MASTER])
            .query_async(&mut self.sentinels[0].connection().await)
            .await
            .expect("the sentinel answers");
        let found = self
            .servers
            .iter()
            .position(|server| server.port() == address.1);
        found.expect("it is one of them")
    }

    /// Waits until the first sentinel knows a master other than the first one. Returns its index.
    pub(crate) async fn until_failed_over(&self) -> usize {
        until("a failover", PATIENCE, async || self.master().await != 0).await;
        self.master().await
    }

    /// Orders a failover, as an operator does.
    pub(crate) async fn fail_over(&self) {
        until("it can be failed over", LIMIT, async || {
            let ordered: redis::RedisResult<()> = redis::cmd("SENTINEL")
                .arg(&["FAILOVER", MASTER])
                .query_async(&mut self.sentinels[0].connection().await)
                .await;
            ordered.is_ok()
        })
        .await;
    }

    /// Waits until all servers have `value` for `name`.
    pub(crate) async fn until_all_have(&self, name: &str, value: &str) {
        for server in &self.servers {
            until_has(server, name, value).await;
        }
    }

    /// Keeps the sentinels from the first master, which clients still reach. Or lets the sentinels reach it again.
    pub(crate) async fn cut_off(&self, cut: bool) {
        // A sentinel whose own user is off is the default user.
        let rules: [&[&str]; 2] = if cut {
            let default = &[
                "default",
                "-ping",
                "-info",
                "-multi",
                "-slaveof",
                "-replicaof",
            ];
            [&["sentinel", "off"], default]
        } else {
            [&["sentinel", "on"], &["default", "+@all"]]
        };
        let mut control = self.servers[0].connection().await;
        for rule in rules {
            set_user(&mut control, rule).await;
        }
        if cut {
            self.servers[0].disconnect("sentinel").await;
        }
    }
}

/// Waits until a server has `value` for `name`.
pub(crate) async fn until_has(server: &RedisServer, name: &str, value: &str) {
    let what = format!("{value} for {name} at {}", server.port());
    until(&what, LIMIT, async || {
        let found: Option<Option<String>> = asked(server, &["GET", name]).await;
        found.flatten().as_deref() == Some(value)
    })
    .await;
}

/// The reply of a server. There is none while the server is promoted or demoted, as sentinels cut all connections then.
pub(crate) async fn asked<T: redis::FromRedisValue>(
    server: &RedisServer,
    words: &[&str],
) -> Option<T> {
    let connection = server.client().get_multiplexed_async_connection().await;
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command.query_async(&mut connection.ok()?).await.ok()
}

/// Starts `acquire` in a task. The call is in the queue at this master when this returns.
pub(crate) async fn waiter(
    server: &RedisServer,
    semaphore: &RSemaphore,
    permits: u32,
) -> JoinHandle<Result<()>> {
    let call = semaphore.clone();
    let task = tokio::spawn(async move { call.acquire(permits).await });
    let channel = channel(semaphore.name());
    until("it waits", LIMIT, async || {
        let listeners: Option<(String, u64)> = asked(server, &["PUBSUB", "NUMSUB", &channel]).await;
        listeners.is_some_and(|(_, count)| count == 1)
    })
    .await;
    // The server answers this call after the waiter's own request.
    semaphore.available_permits().await.unwrap();
    task
}

/// Adds the user that sentinels log in with.
fn data_server(options: crate::support::server::Options) -> crate::support::server::Options {
    options.user("sentinel on >sentinel ~* &* +@all")
}

pub(crate) fn sentinel() -> crate::support::server::Options {
    RedisServer::options()
        .sentinel()
        .user("default off")
        .user(READER)
        .user("redisson on >redisson ~* &* +@all")
}

/// The URL by which clients query a sentinel.
pub(crate) fn url(sentinel: &RedisServer) -> String {
    sentinel.url_as("reader", "read")
}

/// The configuration of Redisson for a master. `addresses` are those of sentinels. Redisson logs in to sentinels only if the servers
/// require a password, too. So `user` logs in at the servers, with its name as the password.
pub(crate) fn yaml(master: &str, addresses: &[String], user: &str) -> String {
    let addresses = addresses.join("\", \"");
    format!(
        "sentinelServersConfig:\n  masterName: {master}\n  sentinelAddresses: [\"{addresses}\"]\n  sentinelUsername: redisson\n  \
         sentinelPassword: redisson\n  checkSentinelsList: false\n  readMode: MASTER\n  subscriptionMode: MASTER\n  \
         masterConnectionMinimumIdleSize: 1\nusername: {user}\npassword: {user}\n"
    )
}

/// Makes a sentinel monitor a master, with short timeouts.
pub(crate) async fn monitor(
    sentinel: &RedisServer,
    name: &str,
    port: u16,
    user: &str,
    quorum: u32,
) {
    let mut connection = sentinel.connection().await;
    let (port, quorum) = (port.to_string(), quorum.to_string());
    let commands: [&[&str]; 3] = [
        &["MONITOR", name, "127.0.0.1", &port, &quorum],
        &[
            "SET",
            name,
            "auth-user",
            user,
            "auth-pass",
            user,
            "down-after-milliseconds",
            "1500",
            "failover-timeout",
            "4000",
            "parallel-syncs",
            "2",
        ],
        &[
            "DEBUG",
            "publish-period",
            "500",
            "info-period",
            "300",
            "ask-period",
            "200",
        ],
    ];
    for arguments in commands {
        let done: redis::RedisResult<redis::Value> = redis::cmd("SENTINEL")
            .arg(arguments)
            .query_async(&mut connection)
            .await;
        // A sentinel before 7.0 can't be made as fast.
        if arguments[0] != "DEBUG" {
            done.unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
        }
    }
}

async fn details(sentinel: &RedisServer) -> Vec<String> {
    let mut connection: MultiplexedConnection = sentinel.connection().await;
    redis::cmd("SENTINEL")
        .arg(&["MASTER", MASTER])
        .query_async(&mut connection)
        .await
        .expect("it knows the master")
}
