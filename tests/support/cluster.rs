//! A private cluster: three masters, each with a replica.

use std::time::Duration;

use redis::FromRedisValue;
use redisson_semaphore::Client;
use tokio::task::JoinHandle;

use super::acl::set_user;
use super::clients::LIMIT;
use super::proxy::Proxy;
use super::server::{Options, RedisServer};
use super::waiters::{channel, until, until_counted, until_linked};

const PATIENCE: Duration = Duration::from_secs(30);
const SLOTS: u16 = 16384;
const MASTERS: usize = 3;

/// A running cluster. Dropping it kills all of its servers.
#[derive(Debug)]
pub struct Cluster {
    /// The first masters, in the order of their slots; then a replica of each, in the same order.
    pub servers: Vec<RedisServer>,
}

impl Cluster {
    /// A cluster in which no node is replaced unless this is ordered.
    pub async fn start() -> Cluster {
        Cluster::start_with(Duration::from_secs(60)).await
    }

    /// A cluster in which a master that has been silent for this long is replaced.
    pub async fn start_with(node_timeout: Duration) -> Cluster {
        Cluster::start_of(node(node_timeout)).await
    }

    /// A cluster whose nodes speak TLS as the options say, to each other, too.
    pub async fn start_secured(tls: impl FnOnce(Options) -> Options) -> Cluster {
        let node = tls(node(Duration::from_secs(60)));
        let node = node
            .setting("tls-cluster", "yes")
            .setting("tls-replication", "yes");
        Cluster::start_of(node).await
    }

    /// A cluster whose first master announces a proxy. Clients reach the master through it; its replica tries to, and fails.
    pub async fn start_behind_a_proxy() -> (Cluster, Proxy) {
        let cluster = Cluster::start().await;
        let (first, others) = cluster.servers.split_first().expect("there are some");
        let proxy = Proxy::start(first).await;
        let port = proxy.address();
        let port = port.rsplit_once(':').expect("a port").1;
        ask::<()>(first, &["CONFIG", "SET", "cluster-announce-port", port]).await;
        let true_port = first.port().to_string();
        for other in others {
            // By themselves nodes learn of the new address within half a minute.
            ask::<()>(other, &["CLUSTER", "MEET", "127.0.0.1", &true_port]).await;
        }
        cluster
            .until_all_say(&["CLUSTER", "NODES"], &proxy.address())
            .await;
        (cluster, proxy)
    }

    async fn start_of(node: Options) -> Cluster {
        let nodes = (0..2 * MASTERS).map(|_| node.clone().start());
        let servers = futures::future::join_all(nodes).await;
        let cluster = Cluster { servers };
        cluster.form().await;
        cluster
    }

    async fn form(&self) {
        let share = SLOTS.div_ceil(MASTERS as u16);
        for (number, server) in self.servers.iter().enumerate() {
            let epoch = (number + 1).to_string();
            ask::<()>(server, &["CLUSTER", "SET-CONFIG-EPOCH", &epoch]).await;
        }
        for (first, server) in (0..SLOTS).step_by(share.into()).zip(&self.servers) {
            let slots = first..SLOTS.min(first + share);
            let slots: Vec<String> = slots.map(|slot| slot.to_string()).collect();
            let mut words = vec!["CLUSTER", "ADDSLOTS"];
            words.extend(slots.iter().map(String::as_str));
            ask::<()>(server, &words).await;
        }
        let first = &self.servers[0];
        for server in &self.servers[1..] {
            let port = server.peer_port().to_string();
            ask::<()>(first, &["CLUSTER", "MEET", "127.0.0.1", &port]).await;
        }
        let known = format!("cluster_known_nodes:{}", self.servers.len());
        self.until_all_say(&["CLUSTER", "INFO"], &known).await;
        let (masters, replicas) = self.servers.split_at(MASTERS);
        for (master, replica) in masters.iter().zip(replicas) {
            let id: String = ask(master, &["CLUSTER", "MYID"]).await;
            ask::<()>(replica, &["CLUSTER", "REPLICATE", &id]).await;
        }
        for replica in replicas {
            until_linked(&mut replica.connection().await).await;
        }
        for master in masters {
            until_counted(&mut master.connection().await).await;
        }
        for server in &self.servers {
            until("all know who replicates whom", PATIENCE, async || {
                let nodes: String = ask(server, &["CLUSTER", "NODES"]).await;
                nodes.matches("slave").count() == MASTERS
            })
            .await;
        }
        self.until_all_say(&["CLUSTER", "INFO"], "cluster_state:ok")
            .await;
    }

    /// Adds a master without slots. Returns its index.
    pub async fn add(&mut self) -> usize {
        let added = node(Duration::from_secs(60)).start().await;
        let port = added.peer_port().to_string();
        ask::<()>(&self.servers[0], &["CLUSTER", "MEET", "127.0.0.1", &port]).await;
        self.servers.push(added);
        let known = format!("cluster_known_nodes:{}", self.servers.len());
        self.until_all_say(&["CLUSTER", "INFO"], &known).await;
        self.until_all_say(&["CLUSTER", "INFO"], "cluster_state:ok")
            .await;
        self.servers.len() - 1
    }

    /// Removes the last master that was added, for good. It has no slots any more.
    pub async fn remove(&mut self) {
        let mut removed = self.servers.pop().expect("it was added");
        let id: String = ask(&removed, &["CLUSTER", "MYID"]).await;
        for server in &self.servers {
            ask::<()>(server, &["CLUSTER", "FORGET", &id]).await;
        }
        removed.kill().await;
    }

    async fn until_all_say(&self, question: &[&str], text: &str) {
        for server in &self.servers {
            until(text, PATIENCE, async || {
                let said: String = ask(server, question).await;
                said.contains(text)
            })
            .await;
        }
    }

    /// The URL for the code under test, which names one node.
    pub fn url(&self) -> String {
        format!("redis+cluster://127.0.0.1:{}", self.servers[0].port())
    }

    /// The same URL for Redisson.
    pub fn java_url(&self) -> String {
        self.servers[0].url()
    }

    /// The slot of a name.
    pub async fn slot(&self, name: &str) -> u16 {
        ask(&self.servers[0], &["CLUSTER", "KEYSLOT", name]).await
    }

    /// A name that begins with `hint`, and whose slot belongs to this one of the first masters.
    pub async fn name_at(&self, master: usize, hint: &str) -> String {
        let share = SLOTS.div_ceil(MASTERS as u16);
        for number in 0.. {
            let name = format!("{hint}-{number}");
            if usize::from(self.slot(&name).await / share) == master {
                return name;
            }
        }
        unreachable!("every slot has names")
    }

    /// The index of the master that has `slot`, as reported by a server other than `but`.
    pub async fn master_of(&self, slot: u16, but: usize) -> usize {
        let witness = usize::from(but == 0);
        type Range = (u16, u16, (String, u16, String));
        let ranges: Vec<redis::Value> = ask(&self.servers[witness], &["CLUSTER", "SLOTS"]).await;
        for range in ranges {
            let redis::Value::Array(mut parts) = range else {
                panic!("a range is an array")
            };
            parts.truncate(3);
            if let redis::Value::Array(node) = &mut parts[2] {
                node.truncate(3);
            }
            let (first, last, (_, port, _)): Range =
                redis::from_redis_value(redis::Value::Array(parts)).expect("a range");
            if (first..=last).contains(&slot) {
                let found = self.servers.iter().position(|server| server.port() == port);
                return found.expect("it is one of them");
            }
        }
        panic!("nobody has slot {slot}")
    }

    /// Orders a failover from a master to its replica, as an operator does, and waits for it.
    pub async fn fail_over(&self, master: usize) {
        let replica = &self.servers[master + MASTERS];
        ask::<()>(replica, &["CLUSTER", "FAILOVER"]).await;
        until("the failover", PATIENCE, async || {
            let role: Vec<redis::Value> = ask(replica, &["ROLE"]).await;
            role[0] == redis::Value::BulkString(b"master".to_vec())
        })
        .await;
    }

    /// Cuts a master off from all other nodes, but not from clients, and puts its replica in its place. The master goes on as
    /// the master of a cluster of its own.
    pub async fn cut_off(&self, master: usize) {
        let hermit = &self.servers[master];
        ask::<()>(
            hermit,
            &["CONFIG", "SET", "cluster-require-full-coverage", "no"],
        )
        .await;
        let replica = &self.servers[master + MASTERS];
        for (number, server) in self.servers.iter().enumerate() {
            if number != master {
                let id: String = ask(server, &["CLUSTER", "MYID"]).await;
                ask::<()>(hermit, &["CLUSTER", "FORGET", &id]).await;
            }
        }
        ask::<()>(replica, &["CLUSTER", "FAILOVER", "TAKEOVER"]).await;
        let id: String = ask(hermit, &["CLUSTER", "MYID"]).await;
        for (number, server) in self.servers.iter().enumerate() {
            if number != master {
                let port = replica.port().to_string();
                until("the takeover is known", PATIENCE, async || {
                    let nodes: String = ask(server, &["CLUSTER", "NODES"]).await;
                    let line = nodes
                        .lines()
                        .find(|line| line.contains(&format!(":{port}@")));
                    line.is_some_and(|line| line.contains("master"))
                })
                .await;
                ask::<()>(server, &["CLUSTER", "FORGET", &id]).await;
            }
        }
    }

    /// Marks `slot` as moving from one of the first masters to another.
    pub async fn begin_to_move(&self, slot: u16, from: usize, to: usize) {
        let slot = slot.to_string();
        let [source, target] = [from, to].map(|index| &self.servers[index]);
        let source_id: String = ask(source, &["CLUSTER", "MYID"]).await;
        let target_id: String = ask(target, &["CLUSTER", "MYID"]).await;
        ask::<()>(
            target,
            &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source_id],
        )
        .await;
        ask::<()>(
            source,
            &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target_id],
        )
        .await;
    }

    /// Moves the keys that `slot` has now, one by one.
    pub async fn move_keys(&self, slot: u16, from: usize, to: usize) {
        let slot = slot.to_string();
        loop {
            let source = &self.servers[from];
            let keys: Vec<String> = ask(source, &["CLUSTER", "GETKEYSINSLOT", &slot, "1"]).await;
            let Some(key) = keys.first() else { return };
            self.move_key(key, from, to).await;
        }
    }

    /// Moves one key of a slot that is moving.
    pub async fn move_key(&self, key: &str, from: usize, to: usize) {
        let port = self.servers[to].peer_port().to_string();
        let words = [
            "MIGRATE",
            "127.0.0.1",
            &port,
            "",
            "0",
            "5000",
            "AUTH2",
            "harness",
            "harness",
            "KEYS",
            key,
        ];
        let _: String = ask(&self.servers[from], &words).await;
    }

    /// Ends the move, first at the target, as is required.
    pub async fn end_move(&self, slot: u16, from: usize, to: usize) {
        let slot = slot.to_string();
        let id: String = ask(&self.servers[to], &["CLUSTER", "MYID"]).await;
        for server in [to, from] {
            ask::<()>(
                &self.servers[server],
                &["CLUSTER", "SETSLOT", &slot, "NODE", &id],
            )
            .await;
        }
    }

    /// Moves `slot` with all its keys from one of the first masters to another.
    pub async fn move_slot(&self, slot: u16, from: usize, to: usize) {
        self.begin_to_move(slot, from, to).await;
        self.move_keys(slot, from, to).await;
        self.end_move(slot, from, to).await;
    }

    /// The value of a key at its master. The server `but` is not asked for the master.
    pub async fn stored(&self, name: &str, but: usize) -> Option<String> {
        let master = self
            .master_of(self.slot_by_other(name, but).await, but)
            .await;
        ask(&self.servers[master], &["GET", name]).await
    }

    /// Waits until a replica has `value` for `name`.
    pub async fn until_copied(&self, replica: usize, name: &str, value: &str) {
        until("the replica is in step", PATIENCE, async || {
            self.copied(replica, name).await.as_deref() == Some(value)
        })
        .await;
    }

    /// The value of `name` at a replica.
    pub async fn copied(&self, replica: usize, name: &str) -> Option<String> {
        let mut connection = self.servers[replica].connection().await;
        let mut both = redis::pipe();
        both.cmd("READONLY").ignore().cmd("GET").arg(name);
        let (stored,) = both.query_async(&mut connection).await.expect("it answers");
        stored
    }

    async fn slot_by_other(&self, name: &str, but: usize) -> u16 {
        let witness = usize::from(but == 0);
        ask(&self.servers[witness], &["CLUSTER", "KEYSLOT", name]).await
    }
}

fn node(node_timeout: Duration) -> Options {
    RedisServer::options()
        .setting("cluster-enabled", "yes")
        // A master that has given its last slot away stays a master.
        .setting("cluster-allow-replica-migration", "no")
        .setting(
            "cluster-node-timeout",
            &node_timeout.as_millis().to_string(),
        )
}

/// The answer of a server to a command.
pub async fn ask<T: FromRedisValue>(server: &RedisServer, words: &[&str]) -> T {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    let answer = command.query_async(&mut server.connection().await).await;
    answer.unwrap_or_else(|error| panic!("{words:?} at {}: {error}", server.port()))
}

/// Waits until `count` clients listen to a channel at a server. `counting` is the subcommand that counts them.
pub async fn until_heard(server: &RedisServer, counting: &str, channel: &str, count: u64) {
    let what = format!("{count} listen to {channel} at {}", server.port());
    until(&what, LIMIT, async || {
        let (_, heard): (String, u64) = ask(server, &["PUBSUB", counting, channel]).await;
        heard == count
    })
    .await;
}

/// Makes the same wait for the channel of a semaphore, with sharded messages.
pub async fn until_listeners(server: &RedisServer, name: &str, count: u64) {
    until_heard(server, "SHARDNUMSUB", &channel(name), count).await;
}

/// Starts `acquire` in a task. The call waits, and its client listens at this server, when this returns.
pub async fn waiter(
    server: &RedisServer,
    client: &Client,
    name: &str,
    permits: u32,
) -> JoinHandle<redisson_semaphore::Result<()>> {
    let semaphore = client.semaphore(name);
    let call = semaphore.clone();
    let task = tokio::spawn(async move { call.acquire(permits).await });
    until_listeners(server, name, 1).await;
    // The server answers this call after the waiter's own request.
    semaphore.available_permits().await.unwrap();
    task
}

/// Sets the rules of a user at all servers, as `ACL SETUSER` takes them.
pub async fn allow(servers: &[RedisServer], user: &str, rules: &str) {
    for server in servers {
        let rules = rules.split_whitespace();
        let words: Vec<_> = std::iter::once(user).chain(rules).collect();
        set_user(&mut server.connection().await, &words).await;
    }
}
