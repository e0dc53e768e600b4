//! What is to happen: all of it is drawn from the seed beforehand, so that events can be left out.

mod away;
mod calls;
mod chance;
mod crowd;
mod faults;
mod forbidden;
mod frozen;
mod handling;
mod large;
mod meddling;
mod mood;
mod nested;
mod orderly;
mod overtaken;
mod quiet;
mod reading;
mod recipes;
mod replication;
mod scenes;
mod settings;
mod shifts;
mod starving;
mod together;
mod unheard;

use std::time::Duration;

use fastrand::Rng;

pub use self::calls::{Admin, AdminCall, Ask, Call, End, Give, Subject};
use self::calls::{admin, party};
use self::chance::{chance, millis, up_to};
use self::faults::server_fault;
pub use self::faults::{Life, LinkFault, ServerFault};
use self::meddling::meddling;
pub use self::meddling::{Meddling, Turns};
use self::mood::Mood;
pub use self::recipes::{Death, Layout, Peer, Recipe};
pub use self::replication::Replication;
pub use self::settings::{LockKind, MOST_UNDER_WAY, Settings};
pub use self::shifts::Shift;
use super::judge::Object;
use super::jvm;

/// One history in so many is about a crowd of clients, and takes as long as fifty others.
const CROWDS: u32 = 250;

/// A client whose queue has been deleted looks after so long.
const USUAL_CHECK: Duration = Duration::from_secs(5);

/// Of the time in the queue of a fair lock.
pub const FAIR_SHARE: Duration = Duration::from_secs(5);

/// A history, before it happens.
#[derive(Debug, Clone)]
pub struct Plan {
    pub seed: u64,
    pub settings: Settings,
    pub events: Vec<Event>,
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
    /// Something about a cluster.
    Shift(Shift),
    /// The replica of a master is away for so long.
    Part(usize, Duration),
    Life(usize, Life),
    /// Its process stops, and goes on after a while.
    Stop(usize, Duration),
    Admin(usize, Admin),
    /// A caller takes from whoever has some, as far as there is a call for that.
    Clear(usize, Object),
    Meddle(Meddling),
    /// A caller of a JVM wants permits of a semaphore.
    Jvm(usize, usize, jvm::Caller),
    /// A peer at a semaphore of a recipe.
    Peer(Peer),
    /// The JVM's subscriptions are lost, and made again after a while.
    JvmDeaf(usize, Duration),
}

impl What {
    /// A server gives up what it holds under some names.
    pub fn evicts(&self) -> bool {
        matches!(
            self,
            What::Server(ServerFault::Evict(_))
                | What::Shift(Shift::Fault(_, ServerFault::Evict(_)))
        )
    }

    /// What nobody could be told of is lost, or made up.
    pub fn tampers(&self) -> bool {
        self.evicts() || matches!(self, What::Meddle(_))
    }
}

impl Plan {
    pub fn of(seed: u64) -> Plan {
        let rng = &mut Rng::with_seed(seed);
        if rng.u32(..CROWDS) == 0 {
            return Plan::of_a_crowd(seed, rng);
        }
        let mut settings = Settings::random(rng);
        shifts::at_a_cluster(seed, &mut settings);
        replication::with_replicas(seed, &mut settings);
        settings.have_threads(seed);
        settings.have_more(seed);
        let mut mood = Mood::random(rng, &settings);
        let mut events = Vec::new();
        let until = settings.healing.as_millis() as u64;
        for _ in 0..mood.calls {
            let at = millis(rng, 0..until);
            let what = What::Call(rng.usize(..settings.clients), mood.call(rng, &settings));
            events.push(Event { at, what });
        }
        match rng.u32(..100) {
            0..30 => events.extend(scenes::crowd(rng, &settings)),
            30..36 => events.extend(scenes::blocked(rng, &mut settings)),
            36..41 => events.extend(scenes::outage(rng, &mut settings)),
            41..44 => {
                mood.is_calm();
                events.extend(scenes::busy_peers(rng, &mut settings));
            }
            44..53 => events.extend(scenes::late(rng, &settings)),
            53..59 => events.extend(scenes::robbed(rng, &mut settings)),
            59..63 => events.extend(scenes::outlived(rng, &mut settings)),
            63..69 => events.extend(scenes::forged(rng, &mut settings)),
            69..73 => events.extend(scenes::unanswered(rng, &settings)),
            // A call that is not polled keeps what it was granted.
            73..77 if mood.stalls == 0 => {
                events.extend(scenes::ends_behind_a_stall(rng, &settings))
            }
            _ => {}
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
                what: What::Server(server_fault(rng)),
            });
        }
        for _ in 0..mood.lives {
            let at = millis(rng, 0..until);
            let kind = rng.u32(..100);
            let life = if kind < 30 {
                Life::Die
            } else if kind < 40 {
                Life::Freeze
            } else {
                // A call that is not polled keeps what it was granted: that is not to be judged.
                let drop_callers = chance(rng, 60) || mood.stalls > 0;
                let limit = chance(rng, 25).then(|| up_to(rng, &[3, 100, 2000]));
                Life::ShutDown {
                    drop_callers,
                    limit,
                }
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
        for _ in 0..mood.peers {
            let at = millis(rng, 0..until);
            let what = What::Peer(Peer::random(rng, settings.recipes.len()));
            events.push(Event { at, what });
        }
        for _ in 0..mood.parties {
            let at = millis(rng, 0..until);
            let what = What::Admin(rng.usize(..settings.clients), party(rng, mood.drops));
            events.push(Event { at, what });
        }
        for _ in 0..mood.meddlings {
            let at = millis(rng, 0..until);
            let what = What::Meddle(meddling(rng, &settings));
            events.push(Event { at, what });
        }
        for _ in 0..mood.stops {
            let at = millis(rng, 0..until);
            let time = up_to(rng, &[30, 1000, 8000]);
            settings.stops += time;
            let what = What::Stop(rng.usize(..settings.clients), time);
            events.push(Event { at, what });
        }
        handling::happens(seed, &settings, &mut events);
        shifts::happen(seed, &settings, &mut events);
        replication::happen(seed, &settings, &mut events);
        shifts::former_master_goes_on(seed, &settings, &mut events);
        large::stops_the_line(seed, &mut settings, &mut events);
        nested::is_let_go(seed, &mut settings, &mut events);
        unheard::nothing_is_heard(seed, &mut settings, &mut events);
        frozen::first_in_line(seed, &mut settings, &mut events);
        overtaken::by_those_who_try(seed, &mut settings, &mut events);
        quiet::falls(seed, &mut settings, &mut events);
        away::for_long(seed, &mut settings, &mut events);
        handling::happens_to_a_latch(seed, &settings, &mut events);
        together::they_count_down(seed, &mut events);
        forbidden::is_something(seed, &mut settings, &mut events);
        starving::beside_small_ones(seed, &mut settings, &mut events);
        orderly::come_by_and_by(seed, &mut settings, &mut events);
        reading::some_read(seed, &settings, &mut events);
        events.sort_by_key(|event| event.at);
        if events.iter().any(|event| event.what.tampers()) {
            // Who finds out that a queue is gone looks by itself.
            settings.safety_interval = settings.safety_interval.min(USUAL_CHECK);
        }
        Plan {
            seed,
            settings,
            events,
        }
    }
}
