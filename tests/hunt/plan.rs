//! What is to happen: all of it is drawn from the seed beforehand, so that events can be left out.

use std::time::Duration;

use fastrand::Rng;

use super::judge::Object;
use super::jvm;

/// A history, before it happens.
#[derive(Debug, Clone)]
pub struct Plan {
    pub seed: u64,
    pub settings: Settings,
    pub events: Vec<Event>,
}

#[derive(Debug, Clone)]
pub struct Settings {
    pub clients: usize,
    /// How many permits each semaphore has.
    pub permits: Vec<i64>,
    pub locks: usize,
    pub jvms: usize,
    /// Of each client, one way.
    pub latency: Vec<Duration>,
    /// Up to so many times the latency is added.
    pub jitter: f64,
    /// How many bytes may be under way.
    pub window: usize,
    pub retry_window: Duration,
    pub response_timeout: Duration,
    pub connect_timeout: Duration,
    pub safety_interval: Duration,
    pub local_hand_over: Duration,
    pub watchdog: Duration,
    /// The clients that keep to no turns.
    pub without_turns: Vec<bool>,
    /// When everything heals.
    pub healing: Duration,
}

#[derive(Debug, Clone)]
pub struct Event {
    pub at: Duration,
    pub what: What,
}

/// Clients are named by their place: one that comes back has its predecessor's.
#[derive(Debug, Clone)]
pub enum What {
    Call(usize, Call),
    Link(usize, LinkFault),
    Server(ServerFault),
    Life(usize, Life),
    Admin(usize, Admin),
    Meddle(Meddling),
    /// A caller of a JVM wants permits of a semaphore.
    Jvm(usize, usize, jvm::Caller),
    /// The JVM's subscriptions are lost, and made again after a while.
    JvmDeaf(usize, Duration),
}

/// A call that changes a semaphore of its own without holding anything.
#[derive(Debug, Clone)]
pub struct Admin {
    pub what: AdminCall,
    /// When the future is dropped, if it has not ended.
    pub patience: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminCall {
    Set(u32),
    Add(i32),
    Drain,
    Release(u32),
    ReleaseIfExists(u32),
    Delete,
    Look,
}

/// What somebody does at the server, past all rules.
#[derive(Debug, Clone)]
pub enum Meddling {
    /// Deletes a semaphore's or lock's key.
    Delete(Object),
    /// Lets it expire.
    Expire(Object, Duration),
    /// Takes all permits of a semaphore.
    Empty(usize),
    /// Counts one hold of a lock less.
    Uncount(usize),
    /// Writes this into one of the records.
    Scribble(u64, &'static str),
    /// Hears everything.
    Eavesdrop,
}

/// A caller.
#[derive(Debug, Clone)]
pub struct Call {
    pub object: Object,
    pub permits: u32,
    pub ask: Ask,
    /// It takes a guard.
    pub guard: bool,
    pub hold: Duration,
    pub give: Give,
    /// When the future is dropped, if it has not ended.
    pub patience: Option<Duration>,
    /// After when, and for how long, it is not polled.
    pub stall: Option<(Duration, Duration)>,
    /// A lock's lease.
    pub lease: Option<Duration>,
    /// It takes the lock a second time while it holds it, with this lease, and which of both goes first.
    pub nested: Option<(Option<Duration>, bool)>,
    /// It is the same owner each time.
    pub one_owner: bool,
    /// It comes again so often, after a pause.
    pub rounds: u32,
    pub pause: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    Wait,
    Try,
    For(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Give {
    /// Waits for the answer.
    Call,
    /// The guard is dropped, or the future of the release is as soon as it was polled.
    Drop,
    /// It is kept until the end.
    Keep,
}

#[derive(Debug, Clone)]
pub enum LinkFault {
    /// All connections are reset; whether what is on its way to the server still arrives, after how long.
    Reset(Option<Duration>),
    /// The next request is carried out, and then the connection is reset instead of an answer.
    LoseAnswer,
    /// The next request arrives so much later, and the connection is reset at once: it is made anew, and asked again.
    LateCopy(Duration),
    /// The connection is reset in the middle of the next request.
    CutRequest,
    /// Nothing more gets through on the connections there are, in either direction, for good.
    Silence { up: bool, down: bool },
    /// What is sent arrives later; connections are not made before that.
    Stall {
        up: bool,
        down: bool,
        for_so_long: Duration,
    },
    /// Connections are refused.
    Refuse(Duration),
    /// The server closes the connections, as it does with idle ones.
    Close,
    /// The connection that hears messages is reset.
    Deaf,
    /// It is farther away from now on.
    Far(Duration),
}

#[derive(Debug, Clone)]
pub enum ServerFault {
    Restart {
        down: Duration,
    },
    FailOver {
        read_only: Duration,
    },
    ReadOnly(Duration),
    OutOfMemory(Duration),
    NoReplicas(Duration),
    Loading(Duration),
    Busy(Duration),
    FlushScripts,
    /// Its clock steps.
    Clock(i64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Its process is gone.
    Die,
    /// It shuts down; whether its callers are dropped before.
    ShutDown { drop_callers: bool },
}

fn millis(rng: &mut Rng, range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(rng.u64(range))
}

fn pick<T: Clone>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.usize(..all.len())].clone()
}

fn up_to(rng: &mut Rng, all: &[u64]) -> Duration {
    let most = pick(rng, all);
    millis(rng, 0..most)
}

fn chance(rng: &mut Rng, of_hundred: u32) -> bool {
    rng.u32(..100) < of_hundred
}

impl Plan {
    pub fn of(seed: u64) -> Plan {
        let rng = &mut Rng::with_seed(seed);
        let settings = Settings::random(rng);
        let mood = Mood::random(rng, &settings);
        let mut events = Vec::new();
        let until = settings.healing.as_millis() as u64;
        for _ in 0..mood.calls {
            let at = millis(rng, 0..until);
            let what = What::Call(rng.usize(..settings.clients), mood.call(rng, &settings));
            events.push(Event { at, what });
        }
        if chance(rng, 30) {
            let object = match settings.locks {
                1.. if rng.bool() => Object::Lock(0),
                _ => Object::Semaphore(0),
            };
            for place in 0..settings.clients {
                for _ in 0..rng.u32(2..5) {
                    let at = millis(rng, 900..1100);
                    let what = What::Call(place, crowding(rng, object, &settings));
                    events.push(Event { at, what });
                }
            }
        }
        for _ in 0..mood.link_faults {
            let at = millis(rng, 0..until);
            let what = What::Link(rng.usize(..settings.clients), mood.link_fault(rng));
            events.push(Event { at, what });
        }
        for _ in 0..mood.server_faults {
            let at = millis(rng, 0..until);
            events.push(Event {
                at,
                what: What::Server(server_fault(rng, &settings)),
            });
        }
        for _ in 0..mood.lives {
            let at = millis(rng, 0..until);
            let life = if chance(rng, 40) {
                Life::Die
            } else {
                // A call that is not polled keeps what it was granted: that is not to be judged.
                let drop_callers = chance(rng, 60) || mood.stalls > 0;
                Life::ShutDown { drop_callers }
            };
            let what = What::Life(rng.usize(..settings.clients), life);
            events.push(Event { at, what });
        }
        for _ in 0..mood.admins {
            let at = millis(rng, 0..until);
            let admin = admin(rng, mood.drops);
            let what = What::Admin(rng.usize(..settings.clients), admin);
            events.push(Event { at, what });
        }
        for _ in 0..mood.jvm_calls {
            let at = millis(rng, 0..until);
            let jvm = rng.usize(..settings.jvms);
            let number = rng.usize(..settings.permits.len());
            let most = settings.permits[number].min(mood.most_permits);
            let caller = jvm::Caller {
                permits: rng.i64(1..=most),
                hold: millis(rng, 0..mood.longest_hold),
                blocks: rng.bool(),
            };
            let what = What::Jvm(jvm, number, caller);
            events.push(Event { at, what });
            if chance(rng, 5) {
                let what = What::JvmDeaf(jvm, millis(rng, 10..9000));
                events.push(Event { at, what });
            }
        }
        for _ in 0..mood.meddlings {
            let at = millis(rng, 0..until);
            let what = What::Meddle(meddling(rng, &settings));
            events.push(Event { at, what });
        }
        events.sort_by_key(|event| event.at);
        Plan {
            seed,
            settings,
            events,
        }
    }
}

impl Plan {
    /// What happens how often.
    pub fn summary(&self) -> String {
        let mut counts = std::collections::BTreeMap::<String, usize>::new();
        for event in &self.events {
            let kind = match &event.what {
                What::Call(_, call) if call.rounds >= CROWD_ROUNDS => {
                    format!("crowd of {:?}", call.object)
                }
                What::Call(_, call) => format!("{:?}", call.object),
                What::Link(_, fault) => format!("{fault:?}"),
                What::Server(fault) => format!("{fault:?}"),
                What::Life(_, life) => format!("{life:?}"),
                What::Admin(..) => "Admin".to_owned(),
                What::Meddle(meddling) => format!("{meddling:?}"),
                What::Jvm(..) => "Jvm".to_owned(),
                What::JvmDeaf(..) => "JvmDeaf".to_owned(),
            };
            let kind = kind.split([' ', '{']).next().unwrap_or_default().to_owned()
                + kind.strip_prefix("crowd").unwrap_or_default();
            *counts.entry(kind).or_default() += 1;
        }
        format!("{} clients, {counts:?}", self.settings.clients)
    }
}

impl Settings {
    fn random(rng: &mut Rng) -> Settings {
        let clients = pick(rng, &[1, 2, 2, 3, 3, 3, 4]);
        let semaphores = pick(rng, &[1, 1, 1, 2, 3]);
        let most = pick(rng, &[1, 2, 3, 6]);
        let response_timeout = pick(rng, &[300, 1000, 3000]);
        Settings {
            clients,
            permits: (0..semaphores).map(|_| rng.i64(1..=most)).collect(),
            locks: pick(rng, &[0, 0, 1, 1, 2]),
            jvms: pick(rng, &[0, 0, 1, 2]),
            latency: (0..clients)
                .map(|_| millis(rng, 0..4) + Duration::from_micros(100))
                .collect(),
            jitter: pick(rng, &[0.0, 0.5, 2.0, 20.0]),
            window: pick(rng, &[1 << 20, 1 << 20, 16_384, 2048]),
            retry_window: Duration::from_millis(pick(rng, &[1000, 3000, 10_000, 30_000])),
            response_timeout: Duration::from_millis(response_timeout),
            connect_timeout: Duration::from_millis(pick(rng, &[1000, 3000])),
            safety_interval: Duration::from_secs(pick(rng, &[5, 5, 600])),
            local_hand_over: Duration::from_millis(pick(rng, &[0, 5, 5])),
            watchdog: Duration::from_millis(pick(rng, &[1000, 3000, 30_000])),
            without_turns: (0..clients).map(|_| chance(rng, 15)).collect(),
            healing: millis(rng, 12_000..18_000),
        }
    }
}

/// What a history is like.
struct Mood {
    calls: usize,
    link_faults: usize,
    server_faults: usize,
    lives: usize,
    admins: usize,
    meddlings: usize,
    jvm_calls: usize,
    rounds: u32,
    longest_hold: u64,
    most_permits: i64,
    drops: u32,
    stalls: u32,
    locks: u32,
    link_kinds: Vec<u32>,
}

const LINK_KINDS: u32 = 10;

impl Mood {
    fn random(rng: &mut Rng, settings: &Settings) -> Mood {
        let calm = chance(rng, 20);
        let some = |rng: &mut Rng, most: usize| if calm { 0 } else { rng.usize(..=most) };
        Mood {
            calls: pick(rng, &[15, 40, 80]),
            link_faults: some(rng, 12),
            server_faults: some(rng, 4),
            lives: some(rng, 4),
            admins: pick(rng, &[0, 0, 20]),
            meddlings: pick(rng, &[0, 0, 0, 0, 3]),
            jvm_calls: if settings.jvms == 0 {
                0
            } else {
                pick(rng, &[10, 40])
            },
            rounds: pick(rng, &[1, 1, 5, 30]),
            longest_hold: pick(rng, &[3, 30, 300, 1500]),
            most_permits: pick(rng, &[1, 2, 6]),
            drops: pick(rng, &[0, 20, 60]),
            stalls: pick(rng, &[0, 0, 15]),
            locks: if settings.locks == 0 {
                0
            } else {
                pick(rng, &[30, 70])
            },
            link_kinds: (0..rng.usize(2..5))
                .map(|_| rng.u32(..LINK_KINDS))
                .collect(),
        }
    }

    fn call(&self, rng: &mut Rng, settings: &Settings) -> Call {
        let lock = chance(rng, self.locks);
        let (object, most) = if lock {
            (Object::Lock(rng.usize(..settings.locks)), 1)
        } else {
            let number = rng.usize(..settings.permits.len());
            let most = settings.permits[number].min(self.most_permits);
            (Object::Semaphore(number), most)
        };
        let ask = match rng.u32(..10) {
            0..5 => Ask::Wait,
            5..6 => Ask::Try,
            _ => Ask::For(up_to(rng, &[20, 1000, 8000])),
        };
        let give = match rng.u32(..20) {
            0..10 => Give::Call,
            10..19 => Give::Drop,
            _ if chance(rng, 30) => Give::Keep,
            _ => Give::Drop,
        };
        let guard = chance(rng, 60);
        Call {
            object,
            permits: u32::try_from(rng.i64(1..=most)).expect("a few"),
            ask,
            guard,
            hold: millis(rng, 0..self.longest_hold),
            give,
            patience: chance(rng, self.drops).then(|| up_to(rng, &[1, 10, 100, 3000])),
            stall: chance(rng, self.stalls).then(|| {
                let most = pick(rng, &[1, 10, 200]);
                (millis(rng, 0..most), millis(rng, 1..4000))
            }),
            lease: chance(rng, 30).then(|| millis(rng, 100..3000)),
            nested: chance(rng, 15).then(|| {
                let lease = chance(rng, 70).then(|| millis(rng, 100..20_000));
                (lease, rng.bool())
            }),
            one_owner: chance(rng, 50),
            rounds: rng.u32(1..=self.rounds),
            pause: up_to(rng, &[1, 5, 100]),
        }
    }

    fn link_fault(&self, rng: &mut Rng) -> LinkFault {
        let (up, down) = pick(rng, &[(true, false), (false, true), (true, true)]);
        match pick(rng, &self.link_kinds) {
            0 => LinkFault::Reset(chance(rng, 60).then(|| up_to(rng, &[10, 500, 6000]))),
            1 => LinkFault::LoseAnswer,
            9 => LinkFault::LateCopy(up_to(rng, &[20, 200, 2000])),
            2 => LinkFault::CutRequest,
            3 => LinkFault::Silence { up, down },
            4 => {
                let most = pick(rng, &[50, 1000, 6000]);
                LinkFault::Stall {
                    up,
                    down,
                    for_so_long: millis(rng, 1..most),
                }
            }
            5 => LinkFault::Refuse(
                up_to(rng, &[100, 6000, 6000, 400_000]) + Duration::from_millis(1),
            ),
            6 => LinkFault::Close,
            7 => LinkFault::Deaf,
            _ => LinkFault::Far(millis(rng, 1..60)),
        }
    }
}

fn server_fault(rng: &mut Rng, settings: &Settings) -> ServerFault {
    let most = pick(rng, &[50, 1000, 5000]);
    let time = millis(rng, 1..most);
    match rng.u32(..9) {
        0 => ServerFault::Restart { down: time },
        1 => ServerFault::FailOver { read_only: time },
        2 => ServerFault::ReadOnly(time),
        3 => ServerFault::OutOfMemory(time),
        4 => ServerFault::NoReplicas(time),
        5 => ServerFault::Loading(time),
        6 => ServerFault::Busy(time),
        // A lease lasts as long as the server's clock says.
        8 if settings.locks == 0 => ServerFault::Clock(rng.i64(-2000..2000)),
        _ => ServerFault::FlushScripts,
    }
}

fn admin(rng: &mut Rng, drops: u32) -> Admin {
    let what = match rng.u32(..8) {
        0 | 1 => AdminCall::Set(rng.u32(..5)),
        2 => AdminCall::Add(rng.i32(-3..5)),
        3 => AdminCall::Drain,
        4 => AdminCall::Release(rng.u32(1..4)),
        5 => AdminCall::ReleaseIfExists(rng.u32(1..4)),
        6 => AdminCall::Delete,
        _ => AdminCall::Look,
    };
    let patience = chance(rng, drops).then(|| up_to(rng, &[2, 20, 500]));
    Admin { what, patience }
}

const CROWD_ROUNDS: u32 = 150;

/// One of many who want the same again and again.
fn crowding(rng: &mut Rng, object: Object, settings: &Settings) -> Call {
    let most = match object {
        Object::Semaphore(number) if chance(rng, 20) => settings.permits[number],
        _ => 1,
    };
    Call {
        object,
        permits: u32::try_from(rng.i64(1..=most)).expect("a few"),
        ask: Ask::Wait,
        guard: true,
        hold: millis(rng, 0..3),
        give: Give::Call,
        patience: None,
        stall: None,
        lease: None,
        nested: None,
        one_owner: false,
        rounds: CROWD_ROUNDS,
        pause: Duration::ZERO,
    }
}

/// Texts that stand in nobody's records.
const SCRIBBLES: [&str; 8] = [
    "",
    "0",
    "0000000000000001 -1 0 999",
    "ffffffffffffffff 1 1 1",
    "x",
    "-1",
    "9999999999999999 9999999999999999999 a:b:c",
    "0000000000000002 1 1 turn:0:-:-:1:26:60",
];

fn meddling(rng: &mut Rng, settings: &Settings) -> Meddling {
    let semaphore = rng.usize(..settings.permits.len());
    let lock = (settings.locks > 0).then(|| rng.usize(..settings.locks));
    let object = match lock {
        Some(lock) if rng.bool() => Object::Lock(lock),
        _ => Object::Semaphore(semaphore),
    };
    match (rng.u32(..7), lock) {
        (0, _) => Meddling::Delete(object),
        (1, _) => Meddling::Expire(object, millis(rng, 1..3000)),
        (2, _) => Meddling::Empty(semaphore),
        (3 | 4, Some(lock)) => Meddling::Uncount(lock),
        (5, _) => Meddling::Eavesdrop,
        _ => Meddling::Scribble(rng.u64(..), pick(rng, &SCRIBBLES)),
    }
}
