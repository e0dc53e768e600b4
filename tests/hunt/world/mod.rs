//! The world between the clients and the server: connections with their faults, the server with its own, and time.
//!
//! A connection behaves like TCP: bytes arrive in order and whole, or the rest of them does not arrive at all. The seed decides how long that takes,
//! and where it ends. All events stand in one queue, by their time.

mod jvms;
mod links;
pub mod nodes;
mod operator;
mod peers;
mod recipes;
mod replicas;
mod serving;
mod shifts;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fastrand::Rng;
use redisson_semaphore::outside::{Connecting, Outside, Task};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::actors::Stage;
use crate::judge::{Granted, Host, Judge, Object};
use crate::jvm;
use crate::net::{Doings, End, Wire};
use crate::plan::{Call, Life, Plan, ServerFault, Settings, What};
use crate::process::Process;
use crate::sim::server::ConnectionId;
use crate::tasks;
use nodes::Nodes;

/// A moment of 2027, in microseconds.
const EPOCH: u64 = 1_800_000_000_000_000;
/// How often the judges check.
const LOOK: Duration = Duration::from_millis(250);
/// How long it takes at most until a listening client notices that its connection is dead, in addition to its own limits.
const PING: Duration = Duration::from_secs(6);

pub struct World {
    began: Instant,
    rng: Rng,
    pub nodes: Nodes,
    settings: Settings,
    doings: Doings,
    hosts: Vec<Link>,
    wires: Vec<Conn>,
    by_connection: BTreeMap<ConnectionId, usize>,
    jvms: Vec<jvms::Jvm>,
    peers: Vec<peers::Peer>,
    replica: replicas::Replica,
    queue: BTreeMap<(Instant, u64), Happening>,
    last_number: u64,
    /// How far the server's clock has stepped, in microseconds.
    stepped: i64,
    /// Until then, no client is expected to have noticed that all is well.
    trouble_until: Instant,
    /// How many permits of each semaphore were missing at the last check.
    missed: Vec<i64>,
    pub stage: Stage,
}

/// How a client reaches the server.
struct Link {
    latency: Duration,
    up_until: Instant,
    down_until: Instant,
    refused_until: Instant,
    lose_answer: Option<Duration>,
    late_copy: Option<Duration>,
    cut_request: Option<Duration>,
    /// The highest number of the client's calls so far.
    sequence: u64,
    dead: bool,
    /// The client's process has stopped for good.
    frozen: bool,
}

/// A connection.
struct Conn {
    wire: Wire,
    host: Host,
    /// The node that the connection leads to.
    node: usize,
    connection: Option<ConnectionId>,
    /// Bytes on their way to the server, and when the last of them arrives.
    up: VecDeque<Vec<u8>>,
    last_up: Instant,
    /// Bytes on their way to the client, or the end (`None`), and when the last of them arrives.
    down: VecDeque<Option<Vec<u8>>>,
    last_down: Instant,
    mute_up: bool,
    mute_down: bool,
    /// Bytes that have arrived, and are not yet a whole request.
    received: Vec<u8>,
    listens: bool,
    /// The end of the connection is on its way.
    ending: bool,
    /// How often the connection has waited for replicas.
    waits: u64,
}

enum Happening {
    Planned(What),
    /// A JVM's caller does something with a semaphore.
    Jvm(usize, usize, u64, jvm::Step),
    JvmHears(usize, usize, i64),
    JvmListens(usize),
    /// A peer does its next step.
    Peer(usize, peers::Step),
    /// The server has answered the dial.
    Connected(oneshot::Sender<io::Result<End>>, io::Result<Wire>),
    /// The first bytes on their way to the server arrive.
    Arrives(usize),
    /// The server learns that the client has closed its end.
    Closed(usize),
    /// The first bytes on their way to the client arrive.
    Answered(usize),
    /// A server, or one of the nodes, recovers.
    Recovers(usize, ServerFault),
    /// A step of the replica, unless it has been away since.
    Replica(u64, replicas::Step),
    /// The wait of a connection for replicas has timed out.
    WaitEnds(usize, u64),
    /// The cluster changes.
    Shifts(shifts::Step),
    /// A client's process goes on.
    GoesOn(Arc<Process>),
    Look,
}

/// The world as the crate sees it.
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

    fn task(&self, task: Task) -> Task {
        tasks::inherit(task)
    }

    fn unlocked(&self) {
        tasks::interrupt();
    }
}

impl World {
    pub fn new(plan: &Plan, doings: Doings, judge: Arc<Mutex<Judge>>) -> World {
        let began = Instant::now();
        let mut nodes = Nodes::new(EPOCH, plan.settings.masters);
        for (number, permits) in plan.settings.permits.iter().enumerate() {
            let (key, value) = (format!("s{number}"), permits.to_string());
            nodes.ask(&[b"SET", key.as_bytes(), value.as_bytes()]);
            let mut judge = judge.lock().unwrap();
            judge.counter(number, None, *permits, Granted::default());
        }
        let jvms = (0..plan.settings.jvms).map(|_| jvms::Jvm::default());
        let mut world = World {
            began,
            jvms: jvms.collect(),
            peers: Vec::new(),
            replica: replicas::Replica::default(),
            rng: Rng::with_seed(!plan.seed),
            nodes,
            settings: plan.settings.clone(),
            doings,
            hosts: Vec::new(),
            wires: Vec::new(),
            by_connection: BTreeMap::new(),
            queue: BTreeMap::new(),
            last_number: 0,
            stepped: 0,
            missed: vec![0; plan.settings.permits.len()],
            trouble_until: began,
            stage: Stage::new(&plan.settings, judge),
        };
        for event in &plan.events {
            world.happens(began + event.at, Happening::Planned(event.what.clone()));
        }
        world.set_permits();
        world.nodes.save();
        world.replica_follows();
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
            lose_answer: None,
            late_copy: None,
            cut_request: None,
            sequence: 0,
            dead: false,
            frozen: false,
        });
        let host = self.hosts.len() - 1;
        self.stage.start(place, host, after);
        self.judge()
            .unwell(host, self.trouble_until.max(now + after));
    }

    /// Takes in the actions of clients, and carries out everything that is due.
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
                self.jvm_steps(jvm, object, number, step);
            }
            Happening::JvmHears(jvm, object, payload) => {
                let entry = self.jvms[jvm].entries.entry(object).or_default();
                for number in entry.hears(payload) {
                    self.jvm_does(jvm, object, number, jvm::Step::Again, Duration::ZERO);
                }
            }
            Happening::Peer(number, step) => self.peer_steps(number, step, now),
            Happening::JvmListens(jvm) => self.jvm_listens(jvm),
            Happening::Connected(answer, wire) => {
                // A connection that no client waits for any more is closed again.
                drop(answer.send(wire.map(|wire| wire.end(&self.doings))));
            }
            Happening::Arrives(number) => self.arrives(number, now),
            Happening::Closed(number) => {
                let conn = &self.wires[number];
                if conn.up.is_empty() || conn.mute_up {
                    self.close_server_side(number);
                } else {
                    // Bytes that were written before arrive first.
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
                        // Nothing arrives after bytes that were lost.
                        _ if state.broken => {}
                        Some(bytes) => state.inbox.extend(bytes),
                        None => state.ended = true,
                    });
                }
            }
            Happening::Recovers(node, fault) => {
                self.change(node, &fault, false);
                self.judge().note(format_args!("server recovers"));
                self.all_unwell(Duration::from_secs(1));
            }
            Happening::Replica(cut, step) => self.replica_does(cut, step),
            Happening::WaitEnds(number, wait) => self.wait_ends(number, wait),
            Happening::Shifts(step) => self.shifts(step, now),
            Happening::GoesOn(process) => process.go_on(),
            Happening::Look => {
                self.look_at_locks();
                self.look_at_recipes();
                self.look_at_records();
                self.judge().look();
                self.happens(now + LOOK, Happening::Look);
            }
        }
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
            What::Peer(peer) => self.peer_comes(peer, now),
            What::Meddle(meddling) => self.meddle(meddling),
            What::Jvm(jvm, object, caller) => self.jvm_calls(jvm, object, caller),
            What::JvmDeaf(jvm, time) => self.jvm_deaf(jvm, time),
            What::Link(place, fault) => {
                let host = self.stage.host(place);
                self.judge().note(format_args!("c{host}'s link: {fault:?}"));
                self.unwell(host, Duration::ZERO);
                self.link_fault(host, fault, now);
            }
            What::Server(master, fault) => {
                let node = self.master(master);
                self.judge().note(format_args!("node {node}: {fault:?}"));
                self.all_unwell(Duration::ZERO);
                self.server_fault(node, fault, now);
            }
            What::Shift(shift) => {
                self.judge().note(format_args!("cluster: {shift:?}"));
                self.all_unwell(Duration::ZERO);
                self.shift_begins(shift, now);
            }
            What::Part(time) => self.parts(time),
            What::Stop(place, time) => {
                let host = self.stage.host(place);
                self.judge()
                    .note(format_args!("c{host} stops for {time:?}"));
                self.unwell(host, time);
                let process = self.stage.process(place);
                process.stop();
                self.happens(now + time, Happening::GoesOn(process));
            }
            What::Life(place, life) => {
                let host = self.stage.host(place);
                match life {
                    Life::Die => self.die(host),
                    Life::Freeze => self.hosts[host].frozen = true,
                    Life::ShutDown { .. } => {}
                }
                self.stage.end(place, life);
                let after = Duration::from_millis(self.rng.u64(0..2000));
                self.start(place, after);
            }
        }
    }

    /// Uses each of the watched semaphores once. If a client has died, uses the others, too.
    pub fn look_in(&self) {
        // The one client that hears of permits from outside may be frozen.
        let all = self.stage.somebody_died();
        for (number, watched) in self.settings.watched.iter().enumerate() {
            if *watched || all {
                self.stage
                    .call(0, Call::looking_in(Object::Semaphore(number)));
            }
        }
    }

    /// Ends all faults. Dead clients stay dead.
    pub fn heal(&mut self) {
        let now = Instant::now();
        self.judge().note(format_args!("everything heals"));
        self.nodes.heal();
        self.replica_is_back();
        for host in 0..self.hosts.len() {
            let link = &mut self.hosts[host];
            link.up_until = now;
            link.down_until = now;
            link.refused_until = now;
            link.lose_answer = None;
            link.late_copy = None;
            link.cut_request = None;
        }
        self.all_unwell(Duration::ZERO);
    }
}

/// Lets everything happen at its time, for ever.
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
