//! The plan of a history: all of it is drawn from the seed beforehand, so that events can be left out.

mod calls;
mod chance;
mod faults;
mod meddling;
mod mood;
mod orderly;
mod recipes;
mod scenes;
mod settings;
mod shifts;

use std::time::Duration;

use fastrand::Rng;

pub use self::calls::{Admin, AdminCall, Ask, Call, Give};
use self::chance::chance;
pub use self::faults::{ENDS, ENDS_BESIDE_CALLERS, Life, LinkFault, ServerFault};
pub use self::meddling::Meddling;
use self::mood::Mood;
pub use self::recipes::{Death, Layout, Peer, Recipe};
pub use self::settings::{LockKind, Settings};
pub use self::shifts::Shift;
use super::jvm;

/// A client whose queue was deleted checks after this time.
const USUAL_CHECK: Duration = Duration::from_secs(5);

/// The time of each client in the queue of a fair lock.
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

/// Clients are named by their place. A restarted client has the place of its predecessor.
#[derive(Debug, Clone)]
pub enum What {
    Call(usize, Call),
    Link(usize, LinkFault),
    /// A fault of the only server, or of the master in this place.
    Server(usize, ServerFault),
    /// A change of the cluster.
    Shift(Shift),
    /// The replica is away for this time.
    Part(Duration),
    Life(usize, Life),
    /// The client's process stops, and goes on after this time.
    Stop(usize, Duration),
    Admin(usize, Admin),
    Meddle(Meddling),
    /// A caller of a JVM wants permits of a semaphore.
    Jvm(usize, usize, jvm::Caller),
    /// A peer comes to a semaphore of a recipe.
    Peer(Peer),
    /// The JVM's subscriptions are lost, and made again after this time.
    JvmDeaf(usize, Duration),
}

impl What {
    /// Whether a server evicts keys.
    pub fn evicts(&self) -> bool {
        matches!(self, What::Server(_, ServerFault::Evict(_)))
    }

    /// Whether something is lost or made up without any notification.
    pub fn tampers(&self) -> bool {
        self.evicts() || matches!(self, What::Meddle(_))
    }

    /// Whether a caller comes, and nothing goes wrong.
    fn is_calm(&self) -> bool {
        matches!(
            self,
            What::Call(..) | What::Admin(..) | What::Jvm(..) | What::Peer(_)
        )
    }
}

impl Plan {
    pub fn of(seed: u64) -> Plan {
        let rng = &mut Rng::with_seed(seed);
        let mut settings = Settings::random(rng);
        let mood = Mood::random(rng, &settings);
        let mut events = mood.events(rng, &mut settings);
        match rng.u32(..100) {
            0..25 => scenes::crowd(rng, &settings, &mut events),
            25..30 => scenes::outage(rng, &mut settings, &mut events),
            30..35 => scenes::busy_peers(rng, &mut settings, &mut events),
            35..43 => scenes::late(rng, &settings, &mut events),
            43..47 => scenes::unanswered(rng, &settings, &mut events),
            47..55 => scenes::is_let_go(rng, &mut settings, &mut events),
            // A call that is not polled keeps its grant.
            55..59 if mood.stalls == 0 => {
                scenes::ends_behind_a_stall(rng, &settings, &mut events);
            }
            59..67 => orderly::come_by_and_by(rng, &mut settings, &mut events),
            _ => {}
        }
        if settings.orderly.is_none() {
            shifts::happen(rng, &settings, &mut events);
            replica_leaves(rng, &settings, &mut events);
            if settings.threads.is_some() && chance(rng, 70) {
                scenes::quiet(rng, &mut settings, &mut events);
            }
        }
        events.sort_by_key(|event| event.at);
        if events.iter().any(|event| event.what.tampers()) {
            // A client finds out by its own check that its queue is gone.
            settings.safety_interval = settings.safety_interval.min(USUAL_CHECK);
        }
        Plan {
            seed,
            settings,
            events,
        }
    }
}

/// Lets the replica go away, and take over. Mostly nothing else makes the server forget.
fn replica_leaves(rng: &mut Rng, settings: &Settings, events: &mut Vec<Event>) {
    use self::chance::{millis, up_to};
    if settings.replication.is_none() {
        return;
    }
    if chance(rng, 80) {
        events.retain(|event| !event.what.tampers());
    }
    let until = settings.healing.as_millis() as u64;
    for _ in 0..rng.usize(..6) {
        let at = millis(rng, 500..until);
        let away = up_to(rng, &[50, 1000, 8000, 30_000]);
        let what = What::Part(away);
        events.push(Event { at, what });
        if rng.bool() {
            let within = u64::try_from(away.as_millis()).unwrap_or(until);
            let at = at + millis(rng, 0..within.min(3000) + 1);
            let down = up_to(rng, &[10, 300, 3000]);
            let what = What::Server(0, ServerFault::Restart { down, lost: 1 });
            events.push(Event { at, what });
        }
    }
}
