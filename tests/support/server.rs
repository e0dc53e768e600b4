//! A private redis-server for one test: loopback, a free port, a directory of its own, gone with the test.

use std::fmt::Write as _;
use std::hash::{BuildHasher, RandomState};
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisResult};

use super::keeper::Keeper;
use super::waiters::until;

/// The user and password by which the tests themselves come in, whatever the options forbid to others.
const HARNESS: &str = "harness";

/// The variable that names another program than `redis-server`: see `make test-servers`.
const PROGRAM: &str = "REDIS_SERVER";

const START_ATTEMPTS: usize = 5;
const DEADLINE: Duration = Duration::from_secs(20);

/// A running (or for the moment stopped) server. Dropping it kills it and removes its directory.
#[derive(Debug)]
pub struct RedisServer {
    port: Port,
    /// Where it speaks TLS.
    tls_port: Option<Port>,
    sentinel: bool,
    password: Option<String>,
    /// `NAME=value` each.
    environment: Vec<String>,
    /// Before `dir`: the server ends before its directory is removed.
    keeper: Option<Keeper>,
    dir: Directory,
}

/// How a server is to be started.
#[derive(Debug, Clone, Default)]
pub struct Options {
    tls: bool,
    sentinel: bool,
    password: Option<String>,
    environment: Vec<String>,
    lines: Vec<String>,
}

impl Options {
    /// The default user's password.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.setting("requirepass", password)
    }

    /// An ACL user, written as in an ACL file: `app on >secret ~* &* +@all`.
    pub fn user(self, rule: &str) -> Self {
        self.setting("user", rule)
    }

    /// Keeps an append-only file, synced at every write: the data survive a restart and a kill.
    pub fn appendonly(self) -> Self {
        self.setting("appendonly", "yes")
            .setting("appendfsync", "always")
    }

    /// Makes it a replica. It answers before it is in step: see [`until_linked`](super::waiters::until_linked).
    pub fn replica_of(self, primary: &RedisServer) -> Self {
        self.setting("replicaof", &format!("127.0.0.1 {}", primary.port()))
    }

    /// Makes it a sentinel.
    pub fn sentinel(mut self) -> Self {
        self.sentinel = true;
        self
    }

    /// Speaks TLS at a port of its own, by PEM files. A client has to show a certificate of the same authority where
    /// `asks` says so.
    pub fn tls(mut self, authority: &Path, certificate: &Path, key: &Path, asks: bool) -> Self {
        self.tls = true;
        self.setting("tls-ca-cert-file", &format!("{authority:?}"))
            .setting("tls-cert-file", &format!("{certificate:?}"))
            .setting("tls-key-file", &format!("{key:?}"))
            .setting("tls-auth-clients", if asks { "yes" } else { "no" })
    }

    /// A variable of the server's environment.
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push(format!("{name}={value}"));
        self
    }

    /// Any line of a redis.conf.
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.lines.push(format!("{name} {value}"));
        self
    }

    /// Starts the server and returns when it answers.
    pub async fn start(self) -> RedisServer {
        let mut log = String::new();
        for _ in 0..START_ATTEMPTS {
            let mut server = RedisServer {
                port: Port::find(),
                tls_port: self.tls.then(Port::find),
                sentinel: self.sentinel,
                password: self.password.clone(),
                environment: self.environment.clone(),
                keeper: None,
                dir: Directory::create(),
            };
            server.configure(&self.lines);
            match server.launch().await {
                Ok(()) => return server,
                Err(output) => log = output,
            }
        }
        panic!("redis-server does not start:\n{log}");
    }
}

impl RedisServer {
    /// Starts a server without password and without persistence.
    pub async fn start() -> RedisServer {
        Options::default().start().await
    }

    /// Starts from something else than the defaults: `RedisServer::options().password("p").start()`.
    pub fn options() -> Options {
        Options::default()
    }

    pub fn port(&self) -> u16 {
        self.port.number
    }

    /// The port where it speaks TLS.
    pub fn tls_port(&self) -> u16 {
        self.tls_port
            .as_ref()
            .expect("it was started with TLS")
            .number
    }

    /// Where other servers of a cluster reach it.
    pub fn peer_port(&self) -> u16 {
        self.tls_port.as_ref().unwrap_or(&self.port).number
    }

    /// The URL for the code under test: the default user, with its password if there is one.
    pub fn url(&self) -> String {
        match &self.password {
            Some(password) => format!("redis://:{password}@127.0.0.1:{}", self.port()),
            None => format!("redis://127.0.0.1:{}", self.port()),
        }
    }

    /// The URL for a user given by [`Options::user`].
    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("redis://{user}:{password}@127.0.0.1:{}", self.port())
    }

    /// A client for the test itself: a user of its own that may do everything.
    pub fn client(&self) -> Client {
        Client::open(self.url_as(HARNESS, HARNESS)).expect("a valid URL")
    }

    /// A connection for the test itself. It ends with the server: take a new one after a restart.
    pub async fn connection(&self) -> MultiplexedConnection {
        self.connect(DEADLINE).await.expect("the server runs")
    }

    /// Cuts all connections of a user (`default` unless the options gave others); returns how many.
    pub async fn disconnect(&self, user: &str) -> usize {
        let mut connection = self.connection().await;
        redis::cmd("CLIENT")
            .arg(&["KILL", "USER", user])
            .query_async(&mut connection)
            .await
            .expect("CLIENT KILL answers")
    }

    /// Ends the server in an orderly way; its port and directory stay reserved for [`restart`](Self::restart).
    pub async fn stop(&mut self) {
        self.end("TERM").await;
    }

    /// Ends the server by `kill -9`.
    pub async fn kill(&mut self) {
        self.end("KILL").await;
    }

    /// Starts the server again, same port, same directory; stops it before if it runs.
    pub async fn restart(&mut self) {
        if self.keeper.is_some() {
            self.stop().await;
        }
        if let Err(log) = self.launch().await {
            panic!(
                "redis-server does not start again on port {}:\n{log}",
                self.port()
            );
        }
    }

    /// Freezes the server: it keeps its connections and answers nobody until [`thaw`](Self::thaw).
    pub fn freeze(&mut self) {
        self.running().signal("STOP");
    }

    /// Lets a frozen server go on.
    pub fn thaw(&mut self) {
        self.running().signal("CONT");
    }

    async fn end(&mut self, signal: &str) {
        let keeper = self.running();
        keeper.signal(signal);
        until(
            &format!("redis-server ends on {signal}"),
            DEADLINE,
            async || keeper.exit_status().is_some(),
        )
        .await;
        self.keeper = None;
    }

    fn running(&mut self) -> &mut Keeper {
        self.keeper.as_mut().expect("the server runs")
    }

    fn configure(&self, lines: &[String]) {
        let mut text = format!(
            "bind 127.0.0.1\nport {}\ndir \"{}\"\nuser {HARNESS} on >{HARNESS} ~* &* +@all\n",
            self.port(),
            self.dir.0.display(),
        );
        text += &if self.sentinel {
            format!("sentinel sentinel-user {HARNESS}\nsentinel sentinel-pass {HARNESS}\n")
        } else {
            format!(
                "save \"\"\nrepl-diskless-sync-delay 0\nrepl-ping-replica-period 1\nmasteruser {HARNESS}\nmasterauth {HARNESS}\n"
            )
        };
        if let Some(Port { number: port, .. }) = &self.tls_port {
            writeln!(text, "tls-port {port}").expect("a String takes everything");
        }
        for line in lines {
            writeln!(text, "{line}").expect("a String takes everything");
        }
        std::fs::write(self.file(), text).expect("the directory is ours");
    }

    /// Starts the process and waits for its answer; `Err` is what it printed before it ended.
    async fn launch(&mut self) -> Result<(), String> {
        let file = self.file();
        let file = file.to_str().expect("a path of plain characters");
        let program = std::env::var(PROGRAM).unwrap_or_else(|_| "redis-server".to_owned());
        let mut arguments: Vec<&str> = self.environment.iter().map(String::as_str).collect();
        arguments.extend([&program, file]);
        arguments.extend(self.sentinel.then_some("--sentinel"));
        let mut keeper = Keeper::spawn(&self.dir.0, "env", &arguments);
        let mut exited = None;
        until("redis-server answers", DEADLINE, async || {
            exited = keeper.exit_status();
            exited.is_some() || self.answers().await.unwrap_or(false)
        })
        .await;
        match exited {
            None => self.keeper = Some(keeper),
            Some(status) if status.code() == Some(127) => {
                panic!("{program} is missing: run `make setup` (or `make test-servers`)")
            }
            Some(_) => return Err(self.log()),
        }
        Ok(())
    }

    /// Whether this very server, not another that took the port, is ready.
    async fn answers(&self) -> RedisResult<bool> {
        let mut connection = self.connect(Duration::from_secs(1)).await?;
        let (info,): (String,) = redis::pipe()
            .cmd("PING")
            .ignore()
            .cmd("INFO")
            .arg("server")
            .query_async(&mut connection)
            .await?;
        let file = self.file();
        let mut lines = info
            .lines()
            .filter_map(|line| line.strip_prefix("config_file:"));
        Ok(lines.any(|known| Path::new(known) == file))
    }

    fn file(&self) -> PathBuf {
        self.dir.0.join("redis.conf")
    }

    async fn connect(&self, timeout: Duration) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(timeout))
            .set_response_timeout(Some(timeout));
        self.client()
            .get_multiplexed_async_connection_with_config(&config)
            .await
    }

    /// All that the server has printed so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.0.join("log")).unwrap_or_default()
    }

    /// Where the server keeps its files.
    pub fn directory(&self) -> &Path {
        &self.dir.0
    }
}

/// A TCP port that no other test's server takes while this value lives, as it holds the UDP port of the same number: also not while the
/// server is stopped, and its clients look for it. The port is below the range of outgoing connections, which do not take it either.
#[derive(Debug)]
struct Port {
    number: u16,
    _taken: UdpSocket,
}

impl Port {
    fn find() -> Port {
        loop {
            let number = 10_000 + (random() % 20_000) as u16;
            let address = ("127.0.0.1", number);
            if let Ok(taken) = UdpSocket::bind(address)
                && TcpListener::bind(address).is_ok()
            {
                return Port {
                    number,
                    _taken: taken,
                };
            }
        }
    }
}

fn random() -> u64 {
    RandomState::new().hash_one(())
}

/// A new directory, removed on drop.
#[derive(Debug)]
struct Directory(PathBuf);

impl Directory {
    fn create() -> Directory {
        let path = std::env::temp_dir().join(format!("redis-test-{:016x}", random()));
        std::fs::create_dir(&path).expect("a new directory can be made");
        Directory(path.canonicalize().expect("the directory exists"))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Where nobody listens.
pub const NOWHERE: u16 = 1;

/// Limits the server's memory to so many bytes; `"0"`: not at all.
pub async fn limit_memory(server: &mut MultiplexedConnection, most: &str) {
    let mut command = redis::cmd("CONFIG");
    command.arg(&["SET", "maxmemory", most]);
    let _: () = command.query_async(server).await.unwrap();
}

/// Makes the server a replica of the one at this port; of nobody, it is a master.
pub async fn replica_of(server: &mut MultiplexedConnection, primary: Option<u16>) {
    let mut command = redis::cmd("REPLICAOF");
    match primary {
        Some(port) => command.arg("127.0.0.1").arg(port),
        None => command.arg(&["NO", "ONE"]),
    };
    let _: () = command.query_async(server).await.unwrap();
}
