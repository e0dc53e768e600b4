//! The two servers: a real one with the test's clock, and the model.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use super::step::{CONNECTIONS, Fault};
use super::wire::Wire;
use crate::sim::server::{ConnectionId, Faults, Reply, Server};
use crate::support::server::RedisServer;

/// The time at which the clock starts: a moment in 2027.
const BEGINNING: u64 = 1_800_000_000_123_456;

/// Waits for something that the real server does by itself.
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

/// A real server whose clock stands still unless it is set.
pub struct Real {
    server: RedisServer,
    clock: File,
    files: PathBuf,
    /// The connection of a user that may do everything.
    operator: Wire,
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.files);
    }
}

impl Real {
    pub async fn start() -> Real {
        let files = std::env::temp_dir().join(format!("sim-clock-{:016x}", fastrand::u64(..)));
        std::fs::create_dir(&files).expect("a new directory can be made");
        let (library, path) = (files.join("clock.so"), files.join("clock"));
        let compiled = Command::new("cc")
            .args(["-O1", "-shared", "-fPIC", "-o"])
            .arg(&library)
            .arg(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/tests/sim/differential/clock.c"
            ))
            .status();
        assert!(
            compiled.is_ok_and(|status| status.success()),
            "the clock needs a C compiler"
        );
        std::fs::write(&path, BEGINNING.to_ne_bytes()).expect("the directory is ours");
        let text = |path: &PathBuf| path.to_str().expect("a plain path").to_owned();
        let server = RedisServer::options()
            .variable("LD_PRELOAD", &text(&library))
            .variable("SIM_CLOCK", &text(&path))
            .setting("enable-debug-command", "yes")
            .setting("enable-protected-configs", "yes")
            .setting("hz", "500")
            .start()
            .await;
        let mut operator = Wire::open(server.port());
        operator.ask(&["AUTH", "harness", "harness"]);
        let mut real = Real {
            clock: File::options()
                .write(true)
                .open(&path)
                .expect("written above"),
            files,
            operator,
            server,
        };
        let version = real.information("server", |line| line.starts_with("redis_version:7.0."));
        assert!(
            version,
            "the model is one of Redis 7.0, this is another version"
        );
        real.order(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
        real
    }

    fn order(&mut self, words: &[&str]) {
        let reply = self.operator.ask(words);
        assert!(!matches!(reply, Reply::Error(_)), "{words:?}: {reply:?}");
    }

    /// Whether the server's `INFO` has a wanted line.
    fn information(&mut self, section: &str, wanted: impl Fn(&str) -> bool) -> bool {
        let Reply::Bulk(text) = self.operator.ask(&["INFO", section]) else {
            panic!("INFO answers with text");
        };
        String::from_utf8_lossy(&text).lines().any(wanted)
    }

    fn set_clock(&mut self, micros: u64) {
        self.clock
            .write_all_at(&micros.to_ne_bytes(), 0)
            .expect("the file is there");
    }
}

/// Both servers, and their connections.
pub struct World<'a> {
    real: &'a mut Real,
    pub model: Server,
    connections: Vec<(Wire, ConnectionId)>,
    now: u64,
}

/// The replies and messages that one command brought.
pub struct Both {
    pub model: Vec<Reply>,
    pub real: Vec<Reply>,
}

impl<'a> World<'a> {
    /// Creates empty servers without faults.
    pub fn new(real: &'a mut Real) -> World<'a> {
        real.clear_faults();
        real.set_clock(BEGINNING);
        for command in [&["FLUSHALL"][..], &["SCRIPT", "FLUSH"]] {
            real.order(command);
        }
        let mut world = World {
            connections: Vec::new(),
            real,
            model: Server::new(BEGINNING),
            now: BEGINNING,
        };
        for _ in 0..CONNECTIONS {
            let connection = world.connect();
            world.connections.push(connection);
        }
        world
    }

    fn connect(&mut self) -> (Wire, ConnectionId) {
        let mut wire = Wire::open(self.real.server.port());
        // Any reply shows that the server has accepted the connection.
        wire.ask(&["PING"]);
        (wire, self.model.connect())
    }

    pub fn reconnect(&mut self, connection: usize) {
        self.model.disconnect(self.connections[connection].1);
        let fresh = self.connect();
        let (old, _) = std::mem::replace(&mut self.connections[connection], fresh);
        let connected = self.real.connected();
        drop(old);
        // The real server notices the closed connection later.
        until("the server notices", || self.real.connected() < connected);
    }

    pub fn step_clock(&mut self, micros: i64) {
        self.now = self
            .now
            .checked_add_signed(micros)
            .expect("no such steps back");
        self.real.set_clock(self.now);
        self.model.at(self.now);
    }

    /// Sends a command to both servers, and takes their replies and messages on all connections.
    pub fn command(&mut self, connection: usize, words: &[Vec<u8>]) -> Both {
        let mut both = Both {
            model: Vec::new(),
            real: Vec::new(),
        };
        let plain: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let (wire, id) = &mut self.connections[connection];
        let reply = self.model.execute(*id, &plain);
        wire.send(words);
        if self.model.waits(*id).is_some() {
            return self.time_passes(connection);
        }
        if let Some(reply) = reply {
            both.model.push(reply);
            both.real.push(wire.receive());
        }
        for (wire, id) in &mut self.connections {
            let messages = self.model.pushed(*id);
            if !messages.is_empty() {
                both.model.extend(messages);
                both.real.extend(wire.messages());
            }
        }
        both
    }

    /// Ends the time of a connection that waits for replicas.
    fn time_passes(&mut self, connection: usize) -> Both {
        let id = self.connections[connection].1;
        let patience = self.model.waits(id).expect("it waits");
        until("the server waits, too", || {
            self.real
                .information("clients", |line| line == "blocked_clients:1")
        });
        let micros = i64::try_from(patience.as_micros()).expect("not for ever");
        self.step_clock(micros + 1000);
        Both {
            model: self.model.end_wait(id).into_iter().collect(),
            real: vec![self.connections[connection].0.receive()],
        }
    }

    pub fn fault(&mut self, fault: Fault, on: bool) {
        self.real.set_fault(fault, on);
        self.model.faults(|faults| match fault {
            Fault::TooFewReplicas => faults.too_few_replicas = on,
            Fault::Replica => faults.replica = on,
        });
    }

    /// Ends all faults, and opens all connections anew.
    pub fn heal(&mut self) {
        self.real.clear_faults();
        self.model.faults(|faults| *faults = Faults::default());
        for connection in 0..CONNECTIONS {
            self.reconnect(connection);
        }
    }
}

impl Real {
    /// The server's description of a command: how many words it takes, its flags, and which words are keys.
    pub fn description(&mut self, command: &str) -> (i64, Vec<String>, [i64; 3]) {
        let reply = self.operator.ask(&["COMMAND", "INFO", command]);
        if let Reply::Array(commands) = &reply
            && let [Reply::Array(parts)] = commands.as_slice()
            && let [_, Reply::Int(arity), Reply::Array(flags), keys @ ..] = parts.as_slice()
            && let [Reply::Int(first), Reply::Int(last), Reply::Int(step), ..] = keys
        {
            let text = |flag: &Reply| match flag {
                Reply::Status(word) => String::from_utf8_lossy(word).into_owned(),
                _ => panic!("a flag is a word"),
            };
            return (
                *arity,
                flags.iter().map(text).collect(),
                [*first, *last, *step],
            );
        }
        panic!("COMMAND INFO {command} answers with a command: {reply:?}");
    }

    /// How many connections the server has besides the operator's.
    fn connected(&mut self) -> usize {
        let Reply::Bulk(list) = self.operator.ask(&["CLIENT", "LIST"]) else {
            panic!("CLIENT LIST answers with text");
        };
        list.iter().filter(|byte| **byte == b'\n').count() - 1
    }

    fn set_fault(&mut self, fault: Fault, on: bool) {
        let number = if on { "1" } else { "0" };
        match fault {
            Fault::TooFewReplicas => {
                self.order(&["CONFIG", "SET", "min-replicas-to-write", number])
            }
            Fault::Replica if on => self.order(&["REPLICAOF", "127.0.0.1", "1"]),
            Fault::Replica => self.order(&["REPLICAOF", "NO", "ONE"]),
        }
    }

    fn clear_faults(&mut self) {
        for fault in [Fault::TooFewReplicas, Fault::Replica] {
            self.set_fault(fault, false);
        }
    }
}
