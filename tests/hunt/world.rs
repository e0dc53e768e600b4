//! The world between the clients and the server: connections with their faults, the server with its own, and time.
//!
//! A connection is as TCP makes it: what one end writes arrives at the other in order and whole, or the rest of it not
//! at all; how long that takes, and where it ends, is for the seed to say. Everything that happens stands in one queue,
//! by its time.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fastrand::Rng;
use redisson_semaphore::outside::{Connecting, Outside};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::actors::Stage;
use super::admin;
use super::judge::{Host, Judge, Object, Wanted};
use super::jvm;
use super::net::{Dial, Doings, Wire};
use super::plan::{LinkFault, Meddling, Plan, ServerFault, Settings, What};
use super::trace::printed;
use crate::sim::scripts;
use crate::sim::server::{ConnectionId, Faults, Reply, Server};

/// Some moment of 2027, in microseconds.
const EPOCH: u64 = 1_800_000_000_000_000;
/// How often the judges look.
const LOOK: Duration = Duration::from_millis(250);
/// How long it takes at the most until a client that listens notices that its connection is dead, without its own limits.
const PING: Duration = Duration::from_secs(6);

pub struct World {
    began: Instant,
    rng: Rng,
    pub server: Server,
    settings: Settings,
    doings: Doings,
    hosts: Vec<Link>,
    wires: Vec<Conn>,
    by_connection: BTreeMap<ConnectionId, usize>,
    operator: ConnectionId,
    jvms: Vec<Jvm>,
    queue: BTreeMap<(Instant, u64), Happening>,
    last_number: u64,
    /// How far the server's clock has stepped, in microseconds.
    stepped: i64,
    /// Until then nobody is expected to have noticed that all is well.
    trouble_until: Instant,
    /// Until then nobody reaches it.
    down_until: Instant,
    pub stage: Stage,
}

/// How a client reaches the server.
struct Link {
    latency: Duration,
    up_until: Instant,
    down_until: Instant,
    refused_until: Instant,
    lose_answer: bool,
    cut_request: bool,
    dead: bool,
}

/// A connection.
struct Conn {
    wire: Wire,
    host: Host,
    connection: Option<ConnectionId>,
    /// On its way to the server, and when the last of it arrives.
    up: VecDeque<Vec<u8>>,
    last_up: Instant,
    /// On its way to the client; `None` is the end.
    down: VecDeque<Option<Vec<u8>>>,
    last_down: Instant,
    mute_up: bool,
    mute_down: bool,
    /// Arrived, and not yet a whole request.
    received: Vec<u8>,
    listens: bool,
    /// Its end is on its way.
    ending: bool,
}

/// A JVM.
struct Jvm {
    commands: ConnectionId,
    listening: Option<ConnectionId>,
    latency: Duration,
    entries: BTreeMap<usize, jvm::Entry>,
}

enum Happening {
    Planned(What),
    /// A JVM's caller does something with a semaphore.
    Jvm(usize, usize, u64, jvm::Step),
    JvmHears(usize, usize, i64),
    JvmListens(usize),
    /// The server has answered the dial.
    Connected(oneshot::Sender<io::Result<Wire>>, io::Result<Wire>),
    /// The first of what is on its way to the server.
    Arrives(usize),
    /// The client's end of the connection is known to the server.
    Closed(usize),
    /// The first of what is on its way to the client.
    Answered(usize),
    Recovers(fn(&mut Faults)),
    Look,
}

/// What the crate sees of it.
pub struct Sky {
    pub doings: Doings,
    pub began: Instant,
}

impl Outside for Sky {
    fn connect(&self, address: &str) -> Connecting {
        self.doings.dial(address)
    }

    fn since_boot(&self) -> Option<Duration> {
        Some(self.began.elapsed())
    }
}

impl World {
    pub fn new(plan: &Plan, doings: Doings, judge: Arc<Mutex<Judge>>) -> World {
        let began = Instant::now();
        let mut server = Server::new(EPOCH);
        let operator = server.connect();
        for (number, permits) in plan.settings.permits.iter().enumerate() {
            let (key, value) = (format!("s{number}"), permits.to_string());
            server.execute(operator, &[b"SET", key.as_bytes(), value.as_bytes()]);
            judge.lock().unwrap().counter(number, None, *permits);
        }
        let jvms = (0..plan.settings.jvms).map(|_| Jvm {
            commands: server.connect(),
            listening: None,
            latency: Duration::from_millis(1),
            entries: BTreeMap::new(),
        });
        let jvms = jvms.collect();
        let mut world = World {
            began,
            jvms,
            rng: Rng::with_seed(plan.seed ^ 0x5eed_0f_0e77),
            server,
            settings: plan.settings.clone(),
            doings,
            hosts: Vec::new(),
            wires: Vec::new(),
            by_connection: BTreeMap::new(),
            operator,
            queue: BTreeMap::new(),
            last_number: 0,
            stepped: 0,
            trouble_until: began,
            down_until: began,
            stage: Stage::new(&plan.settings, judge),
        };
        for event in &plan.events {
            world.happens(began + event.at, Happening::Planned(event.what.clone()));
        }
        world.happens(began + LOOK, Happening::Look);
        for place in 0..world.settings.clients {
            world.start(place, Duration::ZERO);
        }
        world
    }

    pub fn judge(&self) -> MutexGuard<'_, Judge> {
        self.stage.judge.lock().unwrap()
    }

    fn happens(&mut self, at: Instant, what: Happening) {
        self.last_number += 1;
        self.queue.insert((at, self.last_number), what);
    }

    /// A client starts in its place.
    fn start(&mut self, place: usize, after: Duration) {
        let now = Instant::now();
        self.hosts.push(Link {
            latency: self.settings.latency[place],
            up_until: now,
            down_until: now,
            refused_until: now,
            lose_answer: false,
            cut_request: false,
            dead: false,
        });
        let host = self.hosts.len() - 1;
        self.stage.start(place, host, after);
        self.judge()
            .unwell(host, self.trouble_until.max(now + after));
    }

    /// All that is due, and what clients have done.
    fn turn(&mut self) {
        let done = self.doings.take();
        for dial in done.dials {
            self.dialled(dial);
        }
        for number in done.touched {
            self.touched(number);
        }
        let now = Instant::now();
        while let Some(entry) = self.queue.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let what = entry.remove();
            self.carry_out(what, now);
        }
    }

    fn carry_out(&mut self, what: Happening, now: Instant) {
        match what {
            Happening::Planned(what) => self.planned(what, now),
            Happening::Jvm(jvm, object, number, step) => {
                self.jvm_steps(jvm, object, number, step, now);
            }
            Happening::JvmHears(jvm, object, payload) => {
                let entry = self.jvms[jvm].entries.entry(object).or_default();
                for number in entry.hears(payload) {
                    self.jvm_does(jvm, object, number, jvm::Step::Again, Duration::ZERO);
                }
            }
            Happening::JvmListens(jvm) => self.jvm_listens(jvm, now),
            Happening::Connected(answer, wire) => {
                let number = wire.as_ref().ok().map(|wire| wire.number);
                if answer.send(wire).is_err()
                    && let Some(number) = number
                {
                    self.close_server_side(number);
                }
            }
            Happening::Arrives(number) => self.arrives(number, now),
            Happening::Closed(number) => {
                let conn = &self.wires[number];
                if conn.up.is_empty() || conn.mute_up {
                    self.close_server_side(number);
                } else {
                    // Behind what was written before.
                    let later = now + Duration::from_millis(10);
                    self.happens(later, Happening::Closed(number));
                }
            }
            Happening::Answered(number) => {
                let until = self.hosts[self.wires[number].host].down_until;
                if until > now {
                    self.happens(until, Happening::Answered(number));
                    return;
                }
                let conn = &mut self.wires[number];
                let first = conn.down.pop_front().expect("one event for each");
                if !conn.mute_down {
                    conn.wire.change(|state| match first {
                        Some(bytes) => state.inbox.extend(bytes),
                        None => state.ended = true,
                    });
                }
            }
            Happening::Recovers(recover) => {
                self.server.faults(recover);
                self.judge().note(format_args!("server recovers"));
                self.all_unwell(Duration::from_secs(1));
            }
            Happening::Look => {
                self.judge().look();
                self.happens(now + LOOK, Happening::Look);
            }
        }
    }

    /// How long something takes on the way.
    fn delay(&mut self, host: Host) -> Duration {
        let latency = self.hosts[host].latency;
        latency.mul_f64(1.0 + self.settings.jitter * self.rng.f64())
    }

    fn host_of(&self, name: &str) -> Option<Host> {
        let number = name.strip_prefix('c')?.parse().ok()?;
        (number < self.hosts.len()).then_some(number)
    }

    fn dialled(&mut self, dial: Dial) {
        let now = Instant::now();
        let Some(host) = self.host_of(&dial.host) else {
            panic!("{} is nobody", dial.host);
        };
        let there = self.delay(host) + self.delay(host);
        let link = &self.hosts[host];
        let at = (now + there).max(link.up_until).max(link.down_until);
        if link.dead || link.refused_until > now || self.down_until > now {
            let refused = Err(ErrorKind::ConnectionRefused.into());
            self.happens(at, Happening::Connected(dial.answer, refused));
            return;
        }
        let number = self.wires.len();
        let connection = self.server.connect();
        let wire = Wire::new(number, self.settings.window);
        self.by_connection.insert(connection, number);
        self.wires.push(Conn {
            wire: wire.clone(),
            host,
            connection: Some(connection),
            up: VecDeque::new(),
            last_up: at,
            down: VecDeque::new(),
            last_down: at,
            mute_up: false,
            mute_down: false,
            received: Vec::new(),
            listens: false,
            ending: false,
        });
        self.happens(at, Happening::Connected(dial.answer, Ok(wire)));
    }

    /// A client has written to a connection, or closed it.
    fn touched(&mut self, number: usize) {
        let now = Instant::now();
        let (sent, closed) = self.wires[number]
            .wire
            .change(|state| (std::mem::take(&mut state.sent), state.closed));
        let host = self.wires[number].host;
        for bytes in sent {
            let at = (now + self.delay(host)).max(self.wires[number].last_up);
            self.wires[number].last_up = at;
            self.wires[number].up.push_back(bytes);
            self.happens(at, Happening::Arrives(number));
        }
        if closed && !self.wires[number].ending {
            self.wires[number].ending = true;
            // Where nothing gets through the server notices it by itself, some time.
            let mute = self.wires[number].mute_up || self.wires[number].mute_down;
            let later = if mute {
                Duration::from_secs(self.rng.u64(10..40))
            } else {
                self.delay(host)
            };
            let at = (now + later).max(self.wires[number].last_up);
            self.happens(at, Happening::Closed(number));
        }
    }

    fn close_server_side(&mut self, number: usize) {
        if let Some(connection) = self.wires[number].connection.take() {
            self.server.disconnect(connection);
            self.by_connection.remove(&connection);
        }
    }

    fn arrives(&mut self, number: usize, now: Instant) {
        let conn = &mut self.wires[number];
        let host = conn.host;
        if conn.mute_up {
            return;
        }
        let until = self.hosts[host].up_until;
        if until > now {
            self.happens(until, Happening::Arrives(number));
            return;
        }
        let bytes = conn.up.pop_front().expect("one event for each");
        conn.wire.change(|state| state.under_way -= bytes.len());
        let Some(connection) = conn.connection else {
            return;
        };
        if self.hosts[host].cut_request && bytes.len() > 200 {
            self.hosts[host].cut_request = false;
            self.judge()
                .note(format_args!("c{host} is cut off in a request"));
            self.reset(number, None);
            return;
        }
        self.wires[number].received.extend(bytes);
        let received = std::mem::take(&mut self.wires[number].received);
        let mut rest = &received[..];
        while let Some((words, length)) = parse(rest) {
            rest = &rest[length..];
            self.execute(number, connection, &words);
            let carries_on = self.wires[number].connection.is_some();
            if !carries_on {
                return;
            }
        }
        self.wires[number].received = rest.to_vec();
    }

    fn execute(&mut self, number: usize, connection: ConnectionId, words: &[&[u8]]) {
        let host = self.wires[number].host;
        self.look_at_counters(None);
        let reply = self.server.execute(connection, words);
        let name = words[0].to_ascii_lowercase();
        self.wires[number].listens |= name == b"subscribe";
        if name != b"client" {
            let mut judge = self.judge();
            judge.count_command(name != b"ping");
            let said = words[1..].iter().map(|word| match scripts::name_of(word) {
                Some(name) => name.to_owned(),
                None => printed(word),
            });
            let said: Vec<String> = said.collect();
            judge.note(format_args!(
                "c{host}/{number} {} {} -> {}",
                printed(words[0]),
                said.join(" "),
                reply.as_ref().map(shown).unwrap_or_default()
            ));
        }
        self.look_at_counters(Some(host));
        let is_call = name.starts_with(b"eval");
        if is_call && scripts::name_of(words[1]) != Some("RENEW") {
            self.judge().script();
        }
        if is_call && std::mem::take(&mut self.hosts[host].lose_answer) {
            self.judge().note(format_args!("c{host} loses the answer"));
            self.push();
            self.reset(number, None);
            return;
        }
        if let Some(reply) = reply {
            let mut bytes = Vec::new();
            reply.encode(&mut bytes);
            self.answer(number, Some(bytes));
        }
        self.push();
    }

    /// What was published reaches those who listen.
    fn push(&mut self) {
        let connections: Vec<_> = self
            .by_connection
            .iter()
            .map(|(id, number)| (*id, *number))
            .collect();
        for (connection, number) in connections {
            let pushed = self.server.pushed(connection);
            if pushed.is_empty() {
                continue;
            }
            let mut bytes = Vec::new();
            for message in &pushed {
                message.encode(&mut bytes);
            }
            let host = self.wires[number].host;
            self.judge()
                .note(format_args!("c{host}/{number} is sent {}", printed(&bytes)));
            self.answer(number, Some(bytes));
        }
        self.push_to_jvms();
    }

    fn push_to_jvms(&mut self) {
        let now = Instant::now();
        for jvm in 0..self.jvms.len() {
            let Some(connection) = self.jvms[jvm].listening else {
                continue;
            };
            for message in self.server.pushed(connection) {
                let Reply::Array(parts) = message else {
                    continue;
                };
                let [
                    Reply::Bulk(kind),
                    Reply::Bulk(channel),
                    Reply::Bulk(payload),
                ] = &parts[..]
                else {
                    continue;
                };
                let number = std::str::from_utf8(channel).unwrap_or_default();
                let number = number
                    .strip_prefix("redisson_sc:{s")
                    .and_then(|rest| rest.strip_suffix('}'));
                let payload = std::str::from_utf8(payload)
                    .ok()
                    .and_then(|text| text.parse().ok());
                if let (b"message", Some(Ok(number)), Some(payload)) =
                    (&kind[..], number.map(str::parse::<usize>), payload)
                {
                    self.judge()
                        .note(format_args!("jvm {jvm} is told {payload} of s{number}"));
                    let at = now + self.jvms[jvm].latency;
                    self.happens(at, Happening::JvmHears(jvm, number, payload));
                }
            }
        }
    }

    fn jvm_does(
        &mut self,
        jvm: usize,
        object: usize,
        number: u64,
        step: jvm::Step,
        after: Duration,
    ) {
        let at = Instant::now() + after + self.jvms[jvm].latency;
        self.happens(at, Happening::Jvm(jvm, object, number, step));
    }

    /// A caller of a JVM reaches the server.
    fn jvm_steps(&mut self, jvm: usize, object: usize, number: u64, step: jvm::Step, now: Instant) {
        if self.down_until > now {
            self.happens(self.down_until, Happening::Jvm(jvm, object, number, step));
            return;
        }
        self.look_at_counters(None);
        let host = jvm::FIRST + jvm;
        let key = Object::Semaphore(object).key();
        let connection = self.jvms[jvm].commands;
        let caller = self.jvms[jvm].entries.entry(object).or_default().callers[&number].clone();
        let permits = caller.permits.to_string();
        let enough = self
            .server
            .counter(key.as_bytes())
            .is_some_and(|value| value >= caller.permits);
        let releases = step == jvm::Step::Release;
        let command: &[u8] = if releases { b"INCRBY" } else { b"DECRBY" };
        if releases || enough {
            let reply = self
                .server
                .execute(connection, &[command, key.as_bytes(), permits.as_bytes()]);
            let Some(Reply::Int(total)) = reply else {
                // Redisson tells its caller an error; this one tries again.
                self.jvm_does(jvm, object, number, step, Duration::from_millis(300));
                return;
            };
            self.judge().note(format_args!(
                "jvm {jvm} #{number} {step:?}: {total} of {key} are left"
            ));
            self.look_at_counters(Some(host));
            if releases {
                self.judge().lets_go(object, host, caller.permits);
                let channel = format!("redisson_sc:{{{key}}}");
                let total = total.to_string();
                self.server.execute(
                    connection,
                    &[b"PUBLISH", channel.as_bytes(), total.as_bytes()],
                );
                self.jvm(jvm, object).callers.remove(&number);
                self.push();
                return;
            }
            self.judge()
                .end(number, format_args!("is served, in JVM {jvm}"));
            self.judge().holds(number, object, host, caller.permits);
            if step == jvm::Step::Again && self.jvm(jvm, object).served() {
                self.jvm_stops_listening(jvm, object);
            }
            self.jvm_does(jvm, object, number, jvm::Step::Release, caller.hold);
            return;
        }
        if step == jvm::Step::First {
            if self.jvm(jvm, object).listens() {
                self.jvm_listens(jvm, now);
            }
            self.jvm_does(
                jvm,
                object,
                number,
                jvm::Step::Again,
                self.jvms[jvm].latency,
            );
        } else if let Some(next) = self.jvm(jvm, object).in_vain(number) {
            self.jvm_does(jvm, object, next, jvm::Step::Again, self.jvms[jvm].latency);
        }
    }

    fn jvm(&mut self, jvm: usize, object: usize) -> &mut jvm::Entry {
        self.jvms[jvm].entries.entry(object).or_default()
    }

    /// Subscribes to whatever somebody waits for; nobody is told.
    fn jvm_listens(&mut self, jvm: usize, now: Instant) {
        if self.down_until > now {
            self.happens(self.down_until, Happening::JvmListens(jvm));
            return;
        }
        let connection = *self.jvms[jvm]
            .listening
            .get_or_insert_with(|| self.server.connect());
        let wanted = self.jvms[jvm]
            .entries
            .iter()
            .filter(|(_, entry)| entry.has_waiters());
        let channels: Vec<String> = wanted
            .map(|(number, _)| format!("redisson_sc:{{s{number}}}"))
            .collect();
        for channel in channels {
            self.server
                .execute(connection, &[b"SUBSCRIBE", channel.as_bytes()]);
        }
        self.push_to_jvms();
    }

    fn jvm_stops_listening(&mut self, jvm: usize, object: usize) {
        if let Some(connection) = self.jvms[jvm].listening {
            let channel = format!("redisson_sc:{{s{object}}}");
            self.server
                .execute(connection, &[b"UNSUBSCRIBE", channel.as_bytes()]);
            self.push_to_jvms();
        }
    }

    fn jvm_deaf(&mut self, jvm: usize, time: Duration) {
        if let Some(connection) = self.jvms[jvm].listening.take() {
            self.server.disconnect(connection);
            let until = Instant::now() + time;
            self.judge().unwell(jvm::FIRST + jvm, until);
            self.happens(until, Happening::JvmListens(jvm));
        }
    }

    /// Somebody announces permits beside which callers of JVMs sleep by Redisson's own fault.
    pub fn wake_jvms(&mut self) {
        let asleep = self.judge().asleep();
        for number in asleep {
            let channel = format!("redisson_sc:{{s{number}}}");
            self.server
                .execute(self.operator, &[b"PUBLISH", channel.as_bytes(), b"9"]);
        }
        self.push();
    }

    /// Whether no caller of a JVM has anything to do any more.
    pub fn jvms_are_idle(&self) -> bool {
        let idle = |entry: &jvm::Entry| entry.callers.is_empty();
        self.jvms.iter().all(|jvm| jvm.entries.values().all(idle))
    }

    /// Sends something to the client, or the end.
    fn answer(&mut self, number: usize, bytes: Option<Vec<u8>>) {
        let host = self.wires[number].host;
        let at = (Instant::now() + self.delay(host)).max(self.wires[number].last_down);
        self.wires[number].last_down = at;
        self.wires[number].down.push_back(bytes);
        self.happens(at, Happening::Answered(number));
    }

    /// Tells the server the time, and the judges what it holds now; `host` has changed it, or nobody has.
    fn look_at_counters(&mut self, host: Option<Host>) {
        let now = self.began.elapsed().as_micros();
        let micros = EPOCH + u64::try_from(now).expect("a short time");
        self.server.at(micros.saturating_add_signed(self.stepped));
        for number in 0..self.settings.permits.len() {
            let key = format!("s{number}");
            let value = self.server.counter(key.as_bytes()).unwrap_or_default();
            self.judge().counter(number, host, value);
        }
        let value = self.server.counter(admin::KEY.as_bytes());
        self.judge().admin_becomes(host, value);
    }

    /// Breaks a connection. What is on its way to the server arrives after so long, or not at all.
    fn reset(&mut self, number: usize, arrives: Option<Duration>) {
        self.touched(number);
        let now = Instant::now();
        self.wires[number].wire.change(|state| {
            state.broken = true;
            state.inbox.clear();
        });
        match arrives {
            None => self.close_server_side(number),
            Some(later) => {
                let late: Vec<_> = self
                    .queue
                    .iter()
                    .filter(|(_, what)| matches!(what, Happening::Arrives(of) if *of == number))
                    .map(|(key, _)| *key)
                    .collect();
                for key in late {
                    let what = self.queue.remove(&key).expect("it was there");
                    self.happens(key.0 + later, what);
                }
                if !self.wires[number].ending {
                    self.wires[number].ending = true;
                    self.happens(
                        now + later + Duration::from_secs(1),
                        Happening::Closed(number),
                    );
                }
            }
        }
    }

    fn open(&self, host: Option<Host>) -> Vec<usize> {
        let of = |conn: &Conn| host.is_none_or(|host| conn.host == host);
        (0..self.wires.len())
            .filter(|number| self.wires[*number].connection.is_some() && of(&self.wires[*number]))
            .collect()
    }

    fn unwell(&self, host: Host, time: Duration) {
        let limits = self.settings.response_timeout * 2 + self.settings.connect_timeout;
        let until = Instant::now() + time + PING + limits;
        self.judge().unwell(host, until);
    }

    fn all_unwell(&mut self, time: Duration) {
        let limits = self.settings.response_timeout * 2 + self.settings.connect_timeout;
        self.trouble_until = self
            .trouble_until
            .max(Instant::now() + time + PING + limits);
        for host in 0..self.hosts.len() {
            self.unwell(host, time);
        }
    }

    fn planned(&mut self, what: What, now: Instant) {
        match what {
            What::Call(place, call) => self.stage.call(place, call),
            What::Admin(place, admin) => self.stage.admin(place, admin),
            What::Meddle(meddling) => self.meddle(meddling),
            What::Jvm(jvm, object, caller) => {
                let wanted = Wanted {
                    host: jvm::FIRST + jvm,
                    object: Object::Semaphore(object),
                    permits: caller.permits,
                    due: None,
                    stalls: false,
                };
                let number = self.judge().begin(wanted);
                self.jvm(jvm, object).callers.insert(number, caller);
                self.jvm_does(jvm, object, number, jvm::Step::First, Duration::ZERO);
            }
            What::JvmDeaf(jvm, time) => self.jvm_deaf(jvm, time),
            What::Link(place, fault) => {
                let host = self.stage.host(place);
                self.judge().note(format_args!("c{host}'s link: {fault:?}"));
                self.unwell(host, Duration::ZERO);
                self.link_fault(host, fault, now);
            }
            What::Server(fault) => {
                self.judge().note(format_args!("server: {fault:?}"));
                self.all_unwell(Duration::ZERO);
                self.server_fault(fault, now);
            }
            What::Life(place, life) => {
                let host = self.stage.host(place);
                if let super::plan::Life::Die = life {
                    self.die(host);
                }
                self.stage.end(place, life);
                let after = Duration::from_millis(self.rng.u64(0..2000));
                self.start(place, after);
            }
        }
    }

    fn die(&mut self, host: Host) {
        self.hosts[host].dead = true;
        for number in self.open(Some(host)) {
            let arrives = self
                .rng
                .bool()
                .then(|| Duration::from_millis(self.rng.u64(0..3000)));
            self.reset(number, arrives);
        }
    }

    fn link_fault(&mut self, host: Host, fault: LinkFault, now: Instant) {
        match fault {
            LinkFault::Reset(arrives) => {
                for number in self.open(Some(host)) {
                    self.reset(number, arrives);
                }
            }
            LinkFault::LoseAnswer => self.hosts[host].lose_answer = true,
            LinkFault::CutRequest => self.hosts[host].cut_request = true,
            LinkFault::Silence { up, down } => {
                for number in self.open(Some(host)) {
                    self.wires[number].mute_up |= up;
                    self.wires[number].mute_down |= down;
                }
            }
            LinkFault::Stall {
                up,
                down,
                for_so_long,
            } => {
                self.unwell(host, for_so_long);
                let link = &mut self.hosts[host];
                if up {
                    link.up_until = link.up_until.max(now + for_so_long);
                }
                if down {
                    link.down_until = link.down_until.max(now + for_so_long);
                }
            }
            LinkFault::Refuse(time) => {
                self.unwell(host, time);
                self.judge().cuts_off(host, now + time);
                let link = &mut self.hosts[host];
                link.refused_until = link.refused_until.max(now + time);
                for number in self.open(Some(host)) {
                    self.reset(number, None);
                }
            }
            LinkFault::Close => {
                for number in self.open(Some(host)) {
                    self.close_server_side(number);
                    self.answer(number, None);
                }
            }
            LinkFault::Deaf => {
                for number in self.open(Some(host)) {
                    if self.wires[number].listens {
                        self.reset(number, None);
                    }
                }
            }
            LinkFault::Far(latency) => self.hosts[host].latency = latency,
        }
    }

    fn server_fault(&mut self, fault: ServerFault, now: Instant) {
        let passing = |world: &mut World, time: Duration, recover: fn(&mut Faults)| {
            world.all_unwell(time);
            world.happens(now + time, Happening::Recovers(recover));
        };
        match fault {
            ServerFault::Restart { down } => {
                self.all_unwell(down);
                self.down_until = self.down_until.max(now + down);
                for host in 0..self.hosts.len() {
                    self.judge().cuts_off(host, now + down);
                }
                for number in self.open(None) {
                    self.reset(number, None);
                }
                self.server.restart(0);
                self.operator = self.server.connect();
                for jvm in 0..self.jvms.len() {
                    self.jvms[jvm].commands = self.server.connect();
                    self.jvm_deaf(jvm, down + Duration::from_millis(100));
                }
            }
            ServerFault::FailOver { read_only } => {
                self.server.faults(|faults| faults.replica = true);
                passing(self, read_only, |faults| faults.replica = false);
            }
            ServerFault::ReadOnly(time) => {
                self.server.faults(|faults| faults.replica = true);
                passing(self, time, |faults| faults.replica = false);
            }
            ServerFault::OutOfMemory(time) => {
                self.server.faults(|faults| faults.out_of_memory = true);
                passing(self, time, |faults| faults.out_of_memory = false);
            }
            ServerFault::NoReplicas(time) => {
                self.server.faults(|faults| faults.too_few_replicas = true);
                passing(self, time, |faults| faults.too_few_replicas = false);
            }
            ServerFault::Loading(time) => {
                self.server.faults(|faults| faults.loading = true);
                passing(self, time, |faults| faults.loading = false);
            }
            ServerFault::Busy(time) => {
                self.server.faults(|faults| faults.busy = true);
                passing(self, time, |faults| faults.busy = false);
            }
            ServerFault::FlushScripts => {
                self.server.execute(self.operator, &[b"SCRIPT", b"FLUSH"]);
            }
            ServerFault::Clock(millis) => self.stepped += millis * 1000,
        }
    }

    fn meddle(&mut self, meddling: Meddling) {
        self.look_at_counters(None);
        self.judge().note(format_args!("operator: {meddling:?}"));
        let operator = self.operator;
        let mut say = |words: &[&str]| {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            self.server.execute(operator, &words)
        };
        let mut robbed = None;
        match meddling {
            Meddling::Delete(object) => {
                say(&["DEL", &object.key()]);
                robbed = Some(object);
            }
            Meddling::Expire(object, time) => {
                say(&["PEXPIRE", &object.key(), &time.as_millis().to_string()]);
                robbed = Some(object);
            }
            Meddling::Empty(number) => {
                say(&["SET", &Object::Semaphore(number).key(), "0"]);
            }
            Meddling::Uncount(number) => {
                let key = Object::Lock(number).key();
                if let Some(Reply::Array(fields)) = say(&["HKEYS", &key])
                    && let Some(Reply::Bulk(field)) = fields.first()
                {
                    let field = String::from_utf8_lossy(field);
                    let count = say(&["HINCRBY", &key, &field, "-1"]);
                    if let Some(Reply::Int(..=0)) = count {
                        say(&["HDEL", &key, &field]);
                    }
                }
                robbed = Some(Object::Lock(number));
            }
            Meddling::Scribble(which, text) => {
                if let Some(Reply::Array(keys)) = say(&["KEYS", "redisson*"])
                    && !keys.is_empty()
                {
                    let number = usize::try_from(which).unwrap_or_default() % keys.len();
                    if let Reply::Bulk(key) = &keys[number] {
                        say(&["SET", &String::from_utf8_lossy(key), text, "PX", "60000"]);
                    }
                }
            }
            Meddling::Eavesdrop => {
                let listener = self.server.connect();
                self.server.execute(listener, &[b"PSUBSCRIBE", b"*"]);
            }
        }
        if let Some(Object::Lock(number)) = robbed {
            self.judge().robs(number);
        }
        self.look_at_counters(None);
    }

    /// All is well from now on, except for what is dead for good.
    pub fn heal(&mut self) {
        let now = Instant::now();
        self.judge().note(format_args!("everything heals"));
        self.server.faults(|faults| *faults = Faults::default());
        self.down_until = now;
        // A script that takes longer to be sent than an answer is waited for is never sent.
        self.settings.window = 1 << 20;
        for conn in &self.wires {
            conn.wire.change(|state| state.window = 1 << 20);
        }
        for host in 0..self.hosts.len() {
            let place = self.stage.place(host);
            let link = &mut self.hosts[host];
            link.latency = self.settings.latency[place];
            link.up_until = now;
            link.down_until = now;
            link.refused_until = now;
            link.lose_answer = false;
            link.cut_request = false;
        }
        self.all_unwell(Duration::ZERO);
    }

    /// The operator replaces what is gone with clients that have ended, as a release of Redisson's does.
    pub fn replace_permits(&mut self) {
        for number in 0..self.settings.permits.len() {
            let missing = self.judge().missing(number);
            if missing == 0 {
                continue;
            }
            let key = format!("s{number}");
            self.judge()
                .note(format_args!("operator replaces {missing} permits of {key}"));
            let delta = missing.to_string();
            self.server.execute(
                self.operator,
                &[b"INCRBY", key.as_bytes(), delta.as_bytes()],
            );
            self.look_at_counters(None);
            let total = self
                .server
                .counter(key.as_bytes())
                .unwrap_or_default()
                .to_string();
            let channel = format!("redisson_sc:{{{key}}}");
            self.server.execute(
                self.operator,
                &[b"PUBLISH", channel.as_bytes(), total.as_bytes()],
            );
            self.push();
        }
    }

    pub fn connections(&self) -> usize {
        self.open(None).len()
    }

    /// All keys, with their times to live in milliseconds.
    pub fn keys(&mut self) -> Vec<(String, i64)> {
        self.look_at_counters(None);
        let Some(Reply::Array(keys)) = self.server.execute(self.operator, &[b"KEYS", b"*"]) else {
            panic!("KEYS is answered by an array");
        };
        let mut all = Vec::new();
        for key in keys {
            let Reply::Bulk(key) = key else { continue };
            let Some(Reply::Int(left)) = self.server.execute(self.operator, &[b"PTTL", &key])
            else {
                continue;
            };
            all.push((String::from_utf8_lossy(&key).into_owned(), left));
        }
        all
    }
}

/// Lets everything happen, at its time, for ever.
pub async fn run(world: Rc<RefCell<World>>) {
    let doings = world.borrow().doings.clone();
    loop {
        world.borrow_mut().turn();
        let next = world.borrow().queue.keys().next().map(|key| key.0);
        let next = next.expect("the judges always look");
        tokio::select! {
            biased;
            () = doings.heard() => {}
            () = tokio::time::sleep_until(next) => {}
        }
    }
}

/// The first whole request, and how long it is.
fn parse(bytes: &[u8]) -> Option<(Vec<&[u8]>, usize)> {
    let line = |from: usize| -> Option<(i64, usize)> {
        let length = bytes[from..].windows(2).position(|pair| pair == b"\r\n")?;
        let text = std::str::from_utf8(&bytes[from + 1..from + length]).expect("a number");
        Some((text.parse().expect("a number"), from + length + 2))
    };
    if bytes.is_empty() {
        return None;
    }
    let (count, mut at) = line(0)?;
    let mut words = Vec::new();
    for _ in 0..count {
        if at >= bytes.len() {
            return None;
        }
        let (length, from) = line(at)?;
        let to = from + usize::try_from(length).expect("a length");
        if bytes.len() < to + 2 {
            return None;
        }
        words.push(&bytes[from..to]);
        at = to + 2;
    }
    Some((words, at))
}

fn shown(reply: &Reply) -> String {
    match reply {
        Reply::Status(word) => printed(word),
        Reply::Error(text) => format!("-{}", printed(text)),
        Reply::Int(number) => number.to_string(),
        Reply::Bulk(bytes) => format!("{:?}", printed(bytes)),
        Reply::Nil | Reply::NilArray => "nil".to_owned(),
        Reply::Array(items) => {
            let items: Vec<String> = items.iter().take(12).map(shown).collect();
            format!("[{}]", items.join(" "))
        }
    }
}
