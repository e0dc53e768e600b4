//! Histories that have found a defect, or that show a former one, with as few events as possible. They are no seeds: a seed means another history as
//! soon as any other value is drawn.

use std::time::Duration;

use super::judge::Object;
use super::jvm;
use super::plan::{
    Ask, Call, ENDS, ENDS_BESIDE_CALLERS, Event, Give, Layout, Life, LinkFault, Meddling, Plan,
    Recipe, ServerFault, Settings, Shift, What,
};

/// Returns all of them, by name.
pub fn all() -> Vec<(&'static str, Plan)> {
    macro_rules! by_name {
        ($($name:ident)*) => { vec![$((stringify!($name), $name())),*] };
    }
    by_name! {
        tells_behind_its_end reclaimed_unheard record_evicted lost_for_long robbed outlived
        forged released_long_ago called_in_vain called_before_it_hears record_overwritten
        passed_by_those_who_never_wait large_beside_small leaves_a_busy_line
        comes_while_the_last_is_served tries_behind_one_who_waits refused_for_long slot_moves
        master_is_replaced never_answered set_back replica_takes_over gives_back_without_replica
        inner_hold_unconfirmed shuts_down_unconfirmed two_of_each asked_of_a_replica
        grant_overtakes_the_answer dropped_without_replica
        timed_one_after_the_other leaves_while_the_server_is_away tries_past_its_lease
        granted_past_its_lease hears_nothing
        unlock_is_confirmed_late limited_hold_goes_first
        queue_evicted queue_overwritten
    }
}

const LOCK: Object = Object::Lock(0);
const SEMAPHORE: Object = Object::Semaphore(0);
const PERMIT: Object = Object::Recipe(0);

fn at(millis: u64, what: What) -> Event {
    let at = Duration::from_millis(millis);
    Event { at, what }
}

fn calls(millis: u64, place: usize, call: Call) -> Event {
    at(millis, What::Call(place, call))
}

/// Waits for one permit or lock, and keeps it for this long.
fn keeps(object: Object, millis: u64) -> Call {
    Call::keeping(object, Duration::from_millis(millis))
}

/// Returns a recipe with one permit, which lasts for this many seconds.
fn one_permit(layout: Layout, seconds: u64) -> Recipe {
    Recipe {
        layout,
        limit: 1,
        timeout: Duration::from_secs(seconds),
        check: Duration::from_millis(20),
        endless: false,
    }
}

fn plan(settings: Settings, events: Vec<Event>) -> Plan {
    Plan {
        seed: 1,
        settings,
        events,
    }
}

/// Only a JVM hears of permits that come back from a killed process, and it hears late.
/// The JVM subscribes again, without checking, after the permits of the dead client have been announced.
fn reclaimed_unheard() -> Plan {
    let mut settings = Settings::plain(2, 1);
    settings.watched = vec![true];
    settings.jvms = 1;
    settings.healing = Duration::from_secs(120);
    let caller = jvm::Caller {
        permits: 1,
        hold: Duration::from_millis(10),
        blocks: true,
    };
    plan(
        settings,
        vec![
            calls(1000, 0, keeps(SEMAPHORE, 60_000)),
            calls(1200, 1, Call::looking_in(SEMAPHORE)),
            at(1500, What::Jvm(0, 0, caller)),
            at(2000, What::Life(0, Life::Freeze)),
            at(2500, What::JvmDeaf(0, Duration::from_secs(6))),
        ],
    )
}

/// The grants are evicted while a caller holds permits.
fn record_evicted() -> Plan {
    let mut settings = Settings::plain(1, 1);
    settings.watched = vec![true];
    let evicts = ServerFault::Evict("redisson_sc_grants*");
    plan(
        settings,
        vec![
            calls(1000, 0, keeps(SEMAPHORE, 14_000)),
            at(2000, What::Server(0, evicts)),
        ],
    )
}

/// A client that was shut down long ago notifies a frozen waiter.
/// Its release arrives long after its shutdown began.
fn tells_behind_its_end() -> Plan {
    let mut settings = Settings::plain(3, 1);
    settings.retry_window = Duration::from_secs(30);
    // No client checks by itself.
    settings.safety_interval = Duration::from_secs(600);
    plan(
        settings,
        vec![
            calls(1000, 0, keeps(SEMAPHORE, 500)),
            calls(1200, 1, keeps(SEMAPHORE, 100)),
            calls(1300, 2, keeps(SEMAPHORE, 100)),
            // The client knows of the others then.
            calls(1350, 0, keeps(SEMAPHORE, 100)),
            at(
                1400,
                What::Link(0, LinkFault::CutRequest(Duration::from_secs(3))),
            ),
            at(1450, What::Life(1, Life::Freeze)),
            at(2000, What::Life(0, ENDS)),
        ],
    )
}

/// A client shuts down while others pass a permit round.
/// The last release of a client notifies a waiter, and the client checks whether that waiter comes.
fn leaves_a_busy_line() -> Plan {
    let mut settings = Settings::plain(3, 1);
    settings.retry_window = Duration::from_secs(1);
    settings.recipes = vec![one_permit(Layout::FairUnderLock, 10)];
    let again = |rounds: u32, hold: u64| Call {
        rounds,
        ..keeps(PERMIT, hold)
    };
    plan(
        settings,
        vec![
            calls(1000, 1, keeps(PERMIT, 8000)),
            calls(1500, 2, again(20, 260)),
            calls(2000, 0, again(20, 260)),
            at(4000, What::Life(1, ENDS)),
        ],
    )
}

/// The operator overwrites the grants with a text.
fn record_overwritten() -> Plan {
    let mut settings = Settings::plain(1, 1);
    settings.watched = vec![true];
    let writes = Meddling::Scribble(0, "9999999999999999 9999999999999999999 a:b:c");
    plan(
        settings,
        vec![
            calls(1000, 0, keeps(SEMAPHORE, 14_000)),
            at(2000, What::Meddle(writes)),
        ],
    )
}

/// A client may be unable to keep the queue while it waits.
/// The server refuses writes, and the client's subscriptions are made anew.
fn called_in_vain() -> Plan {
    let mut settings = Settings::plain(2, 1);
    settings.recipes = vec![one_permit(Layout::Expirable, 3)];
    let held = keeps(PERMIT, 4700);
    let waits = |ask: u64, rounds: u32| Call {
        ask: Ask::For(Duration::from_millis(ask)),
        rounds,
        pause: Duration::from_millis(4),
        ..keeps(PERMIT, 2000)
    };
    let read_only = ServerFault::ReadOnly(Duration::from_millis(1100));
    plan(
        settings,
        vec![
            calls(2000, 1, held),
            calls(2600, 0, waits(830, 26)),
            at(4800, What::Server(0, read_only)),
            calls(5300, 0, keeps(SEMAPHORE, 10)),
            calls(5800, 0, waits(345, 1)),
        ],
    )
}

/// The server's clock is set back while waiters depend on it.
/// Some of them have come at a time that is in the future now.
fn set_back() -> Plan {
    let mut settings = Settings::plain(3, 1);
    settings.recipes = vec![one_permit(Layout::FairUnderLock, 10)];
    plan(
        settings,
        vec![
            calls(1000, 0, keeps(PERMIT, 2000)),
            calls(1500, 1, keeps(PERMIT, 10)),
            calls(1600, 2, keeps(PERMIT, 10)),
            at(2500, What::Server(0, ServerFault::Clock(-60_000))),
        ],
    )
}

/// A grant is published before its client hears messages.
/// The grant comes between the reply that queues the waiter and the subscription. No client checks by itself.
fn called_before_it_hears() -> Plan {
    let mut settings = Settings::plain(2, 3);
    settings.latency = vec![Duration::from_micros(100), Duration::from_micros(1100)];
    settings.safety_interval = Duration::from_secs(600);
    let read_only = ServerFault::ReadOnly(Duration::from_secs(3));
    let waits = |hold: u64| Call {
        guard: true,
        ..keeps(SEMAPHORE, hold)
    };
    plan(
        settings,
        vec![
            at(300, What::Meddle(Meddling::Delete(SEMAPHORE))),
            calls(1600, 0, keeps(SEMAPHORE, 0)),
            calls(2200, 0, waits(2)),
            at(6400, What::Server(0, read_only)),
            calls(6600, 1, waits(0)),
            calls(9800, 0, waits(1)),
        ],
    )
}

/// A waiter comes while the last one before it is served, and that one keeps its permit.
/// The reply that serves the second is on its way when the third comes. No client checks by itself.
fn comes_while_the_last_is_served() -> Plan {
    let mut settings = Settings::plain(1, 1);
    settings.recipes = vec![one_permit(Layout::Expirable, 1)];
    settings.safety_interval = Duration::from_secs(600);
    settings.latency = vec![Duration::from_millis(50)];
    let never_gives_back = Call {
        guard: false,
        give: Give::Keep,
        ..keeps(PERMIT, 10)
    };
    plan(
        settings,
        vec![
            calls(1000, 0, keeps(PERMIT, 500)),
            calls(1200, 0, never_gives_back),
            calls(1750, 0, keeps(PERMIT, 10)),
        ],
    )
}

/// A caller tries behind a waiter, and the server is away.
/// The waiter has had a reply, so it goes on waiting. The caller that tries has had none.
fn tries_behind_one_who_waits() -> Plan {
    let mut settings = Settings::plain(2, 1);
    settings.retry_window = Duration::from_secs(1);
    settings.recipes = vec![one_permit(Layout::Expirable, 3)];
    let tries = Call {
        ask: Ask::Try,
        ..keeps(PERMIT, 100)
    };
    settings.healing = Duration::from_secs(30);
    let away = LinkFault::Refuse(Duration::from_secs(20));
    plan(
        settings,
        vec![
            calls(1000, 0, keeps(PERMIT, 12_000)),
            calls(3000, 1, keeps(PERMIT, 100)),
            at(4500, What::Link(1, away)),
            calls(8500, 1, tries),
        ],
    )
}

/// A waiter wants watched permits while the server refuses writes for longer than their lease.
/// A lease begins with its grant, and not before.
fn refused_for_long() -> Plan {
    let mut settings = Settings::plain(1, 1);
    settings.watched = vec![true];
    settings.retry_window = Duration::from_secs(10);
    let refuses = ServerFault::NoReplicas(Duration::from_secs(5));
    plan(
        settings,
        vec![
            at(1000, What::Server(0, refuses)),
            calls(1500, 0, keeps(SEMAPHORE, 100)),
        ],
    )
}

/// Returns a history at a cluster of three masters, with a holder and a waiter.
fn at_a_cluster(shift: Shift) -> Plan {
    let mut settings = Settings::plain(2, 1);
    settings.masters = 3;
    settings.sharded = true;
    plan(
        settings,
        vec![
            calls(1000, 0, keeps(SEMAPHORE, 8000)),
            calls(1500, 1, keeps(SEMAPHORE, 100)),
            at(2000, What::Shift(shift)),
        ],
    )
}

/// The slot of a semaphore moves under its holder and a waiter.
fn slot_moves() -> Plan {
    at_a_cluster(Shift::Slot {
        object: SEMAPHORE,
        by: 1,
        pause: Duration::from_millis(300),
        lingers: Duration::from_secs(2),
        gossip: Duration::from_secs(1),
    })
}

/// A waiter's client shuts down, and its lock is granted too late for its lease.
/// That lock is released, though its lease counts from the first sending.
fn granted_past_its_lease() -> Plan {
    let mut settings = Settings::plain(2, 1);
    settings.locks = 1;
    settings.watchdog = Duration::from_secs(1);
    settings.retry_window = Duration::from_secs(1);
    let read_only = ServerFault::ReadOnly(Duration::from_secs(3));
    plan(
        settings,
        vec![
            calls(1000, 1, keeps(LOCK, 14_000)),
            calls(1500, 0, keeps(LOCK, 10)),
            at(5000, What::Server(0, read_only)),
            at(7000, What::Life(0, ENDS_BESIDE_CALLERS)),
        ],
    )
}

/// A try is polled too late for its lease, and its slot moves.
/// No caller has the permit, as its lease is over, though it stands in Redis until a script frees it.
fn tries_past_its_lease() -> Plan {
    let mut settings = Settings::plain(1, 1);
    settings.locks = 1;
    settings.masters = 3;
    settings.sharded = true;
    settings.watched = vec![true];
    settings.watchdog = Duration::from_secs(1);
    settings.retry_window = Duration::from_secs(1);
    let tries = Call {
        ask: Ask::Try,
        guard: true,
        stall: Some((Duration::from_millis(3), Duration::from_secs(3))),
        ..keeps(SEMAPHORE, 10)
    };
    let moves = Shift::Slot {
        object: SEMAPHORE,
        by: 1,
        pause: Duration::from_secs(2),
        lingers: Duration::from_secs(2),
        gossip: Duration::ZERO,
    };
    plan(
        settings,
        vec![
            calls(1000, 0, keeps(LOCK, 10)),
            calls(2000, 0, tries),
            at(4000, What::Shift(moves)),
        ],
    )
}

/// A master is replaced under a holder and a waiter, and goes on.
fn master_is_replaced() -> Plan {
    at_a_cluster(Shift::FailOver {
        // This master has the semaphore's slot.
        master: 2,
        noticed: Duration::from_millis(500),
        elected: Duration::from_millis(500),
        lag: 0,
        gossip: Duration::from_millis(500),
        goes_on: Some(Duration::from_secs(30)),
    })
}

/// Returns settings of two clients that wait for the replica.
fn with_a_replica() -> Settings {
    let mut settings = Settings::plain(2, 2);
    settings.watchdog = Duration::from_secs(30);
    settings.replication = Some(Duration::from_millis(2));
    settings
}

fn away_and_takes_over(parts: u64, takes_over: u64) -> Vec<Event> {
    let restart = ServerFault::Restart {
        down: Duration::from_millis(300),
        lost: 1,
    };
    vec![
        at(parts, What::Part(Duration::from_secs(30))),
        at(takes_over, What::Server(0, restart)),
    ]
}

/// A replica takes over that has been away while permits changed hands.
/// Earlier holders keep their permits. A caller that is granted something meanwhile gets no reply.
fn replica_takes_over() -> Plan {
    let mut events = away_and_takes_over(2000, 4500);
    let tries = Call {
        ask: Ask::Try,
        ..keeps(SEMAPHORE, 3000)
    };
    events.extend([
        calls(1000, 0, keeps(SEMAPHORE, 9000)),
        calls(1000, 0, keeps(LOCK, 9000)),
        calls(2500, 1, tries),
        calls(3000, 1, keeps(SEMAPHORE, 500)),
        calls(3000, 1, keeps(LOCK, 500)),
    ]);
    plan(with_a_replica(), events)
}

/// A replica takes over that lacks the last releases.
/// No caller waits for a deferred release.
fn gives_back_without_replica() -> Plan {
    let mut events = away_and_takes_over(2000, 12_000);
    for give in [Give::Drop, Give::Call] {
        let both = |object: Object| Call {
            give,
            guard: true,
            ..keeps(object, 1500)
        };
        events.push(calls(1000, 0, both(SEMAPHORE)));
        events.push(calls(1000, 1, both(SEMAPHORE)));
        events.push(calls(1000, 0, both(LOCK)));
    }
    plan(with_a_replica(), events)
}

/// A hold with a long lease is released before a renewed hold of the same owner.
/// From then on, the lock lasts for a renewal's time, so it is renewed soon.
fn limited_hold_goes_first() -> Plan {
    let mut settings = Settings::plain(1, 1);
    settings.locks = 1;
    settings.watchdog = Duration::from_secs(1);
    let limited = Call {
        lease: Some(Duration::from_secs(10)),
        one_owner: true,
        ..keeps(LOCK, 5000)
    };
    let renewed = Call {
        one_owner: true,
        ..keeps(LOCK, 8000)
    };
    plan(
        settings,
        vec![calls(1000, 0, limited), calls(1100, 0, renewed)],
    )
}

/// A replica confirms an unlock later than the lease lasts.
/// The lock has been renewed meanwhile, so the other holds of its owner are not lost.
fn unlock_is_confirmed_late() -> Plan {
    let mut settings = with_a_replica();
    settings.watchdog = Duration::from_secs(1);
    let keeps_one = |hold| Call {
        one_owner: true,
        ..keeps(LOCK, hold)
    };
    plan(
        settings,
        vec![
            calls(1000, 0, keeps_one(3000)),
            calls(1100, 0, keeps_one(3400)),
            calls(1200, 0, keeps_one(4000)),
            at(3800, What::Part(Duration::from_millis(1600))),
        ],
    )
}

/// An inner hold with a longer lease is released without a replica, and then its client is cut off.
fn inner_hold_unconfirmed() -> Plan {
    let mut settings = with_a_replica();
    settings.watchdog = Duration::from_secs(1);
    let twice = Call {
        guard: true,
        nested: Some((Some(Duration::from_secs(8)), false)),
        ..keeps(LOCK, 500)
    };
    let cut = LinkFault::CutRequest(Duration::from_secs(3));
    plan(
        settings,
        vec![
            calls(1000, 0, twice),
            at(1300, What::Part(Duration::from_secs(10))),
            at(3000, What::Link(0, cut)),
        ],
    )
}

/// An inner hold is released without a replica, and its client shuts down meanwhile.
/// The rest of the lease counts from a request that the server has answered, not from one that was never sent.
fn shuts_down_unconfirmed() -> Plan {
    let lease = Some(Duration::from_secs(1));
    let twice = Call {
        lease,
        nested: Some((lease, false)),
        ..keeps(LOCK, 300)
    };
    let in_haste = Life::ShutDown {
        drop_callers: false,
        limit: Some(Duration::from_millis(40)),
    };
    plan(
        with_a_replica(),
        vec![
            calls(1000, 0, twice),
            calls(1100, 1, keeps(LOCK, 10)),
            at(1200, What::Part(Duration::from_millis(800))),
            at(1900, What::Life(0, in_haste)),
        ],
    )
}

/// Two callers each of many clients want the few permits, again and again.
/// Each caller finds its client notified of a permit for a waiter that a local hand-off has served.
fn two_of_each() -> Plan {
    const CLIENTS: usize = 60;
    let mut settings = Settings::plain(CLIENTS, 3);
    settings.orderly = Some(SEMAPHORE);
    settings.safety_interval = Duration::from_secs(600);
    let comes = |caller: usize| {
        let again = Call {
            rounds: 10,
            ..keeps(SEMAPHORE, 2 + caller as u64 * 7 % 9)
        };
        calls(1000 + caller as u64 * 3, caller % CLIENTS, again)
    };
    plan(settings, (0..2 * CLIENTS).map(comes).collect())
}

/// A reply is lost for longer than its caller waits.
fn lost_for_long() -> Plan {
    let away = LinkFault::LoseAnswer(Duration::from_secs(6));
    plan(
        Settings::plain(1, 2),
        vec![
            calls(500, 0, keeps(SEMAPHORE, 10)),
            calls(500, 0, keeps(SEMAPHORE, 10)),
            at(1000, What::Link(0, away)),
            calls(1010, 0, keeps(SEMAPHORE, 10)),
            calls(1010, 0, keeps(SEMAPHORE, 10)),
        ],
    )
}

/// A reply is lost for longer than its call may be repeated. It took permits without an end, and those come back.
fn never_answered() -> Plan {
    let away = LinkFault::LoseAnswer(Duration::from_secs(400));
    let mut settings = Settings::plain(2, 1);
    let with_an_id = Recipe {
        endless: true,
        ..one_permit(Layout::Expirable, 10)
    };
    settings.recipes = vec![one_permit(Layout::Set, 10), with_an_id];
    settings.healing = Duration::from_secs(440);
    let take = |millis, one: usize| {
        let kept = keeps(Object::Recipe(one), 10);
        // A guard would have a lease.
        let guard = one == 0;
        calls(millis, one, Call { guard, ..kept })
    };
    let events = [0, 1].map(|one| {
        let lose = at(1000, What::Link(one, away.clone()));
        vec![take(500, one), lose, take(1010, one), take(430_000, one)]
    });
    plan(settings, events.concat())
}

/// A lock is deleted while it is held.
fn robbed() -> Plan {
    plan(
        Settings::plain(2, 1),
        vec![
            calls(1000, 0, keeps(LOCK, 12_000)),
            at(2000, What::Meddle(Meddling::Delete(LOCK))),
        ],
    )
}

/// A lock outlives its lease at a server whose clock steps back.
fn outlived() -> Plan {
    let lease = Duration::from_millis(1000);
    let call = Call {
        lease: Some(lease),
        one_owner: true,
        ..keeps(LOCK, 300)
    };
    let stops = Duration::from_millis(1300);
    let mut settings = Settings::plain(1, 1);
    settings.stops = stops;
    plan(
        settings,
        vec![
            calls(2000, 0, call),
            at(2200, What::Stop(0, stops)),
            at(2200, What::Server(0, ServerFault::Clock(-1500))),
        ],
    )
}

/// The operator forges a reply to a call that was never carried out.
/// The first of three callers asks alone. The request of the others behind it has two results, and is lost.
fn forged() -> Plan {
    let away = LinkFault::CutRequest(Duration::from_secs(1));
    let three = |millis: u64| {
        [1, 1, 2].map(|permits| {
            let call = keeps(SEMAPHORE, 500);
            calls(millis, 0, Call { permits, ..call })
        })
    };
    let mut events = [three(1000), three(2000)].concat();
    events.push(at(2002, What::Link(0, away)));
    events.push(at(
        2050,
        What::Meddle(Meddling::Forge(0, "done 1 -1 -1 0 0 0 1 | ")),
    ));
    plan(Settings::plain(1, 4), events)
}

/// A release made long ago is lost when it is finally sent.
fn released_long_ago() -> Plan {
    let call = Call {
        give: Give::Drop,
        ..keeps(SEMAPHORE, 1000)
    };
    let mut settings = Settings::plain(2, 1);
    settings.healing = Duration::from_secs(345);
    let lost = LinkFault::CutRequest(Duration::ZERO);
    plan(
        settings,
        vec![
            calls(1000, 0, call),
            at(
                1500,
                What::Link(0, LinkFault::Refuse(Duration::from_secs(335))),
            ),
            at(2000, What::Link(0, lost)),
        ],
    )
}

/// A waiter wants all permits, while smaller requests always find enough.
/// One client takes five of six permits. Its callers release one by one, and come again at once.
fn passed_by_those_who_never_wait() -> Plan {
    let takes = |permits: u32, hold: u64, rounds: u32| Call {
        permits,
        rounds,
        ..keeps(SEMAPHORE, hold)
    };
    let holds = [1561, 1532, 1165, 1486, 1211];
    let small = holds.map(|hold| calls(200, 0, takes(1, hold, 100)));
    let large = calls(400, 1, takes(6, 0, 1));
    plan(
        Settings::plain(2, 6),
        [small.to_vec(), vec![large]].concat(),
    )
}

/// A large request waits beside many small ones.
/// Three clients take one permit each, again and again. A caller of one of them wants all permits, and is served first in its windows.
fn large_beside_small() -> Plan {
    const PERMITS: u32 = 8;
    let mut settings = Settings::plain(3, PERMITS.into());
    settings.healing = Duration::from_secs(40);
    let small = |number: u64| Call {
        rounds: 2000,
        ..keeps(SEMAPHORE, 350 + number * 77 % 350)
    };
    let all = Call {
        permits: PERMITS,
        ..keeps(SEMAPHORE, 0)
    };
    let mut events = vec![calls(400, 0, all)];
    events.extend((0..12).map(|number| calls(200, number as usize % 3, small(number))));
    plan(settings, events)
}

/// A grant overtakes the reply that queued its waiter.
/// The reply waits for the replica, and the notification does not. No client checks by itself.
fn grant_overtakes_the_answer() -> Plan {
    let mut settings = with_a_replica();
    settings.permits = vec![1];
    settings.safety_interval = Duration::from_secs(600);
    settings.replication = Some(Duration::from_millis(20));
    let again = |hold: u64| Call {
        rounds: 3,
        ..keeps(SEMAPHORE, hold)
    };
    plan(
        settings,
        vec![calls(1000, 0, again(1000)), calls(2030, 1, again(10))],
    )
}

/// No replica confirms the permit of a dropped caller, and then one takes over.
/// The replica knows neither the permit nor its release.
fn dropped_without_replica() -> Plan {
    let mut events = away_and_takes_over(900, 3500);
    let dropped = Call {
        patience: Some(Duration::from_millis(10)),
        ..keeps(SEMAPHORE, 0)
    };
    events.push(calls(1000, 0, dropped));
    plan(with_a_replica(), events)
}

/// Timed callers come one after the other, and each finds the entry of the one before.
/// No batch departs for a waiter that an entry covers already.
fn timed_one_after_the_other() -> Plan {
    let mut settings = Settings::plain(2, 1);
    settings.safety_interval = Duration::from_secs(600);
    let timed = Call {
        ask: Ask::For(Duration::from_millis(13)),
        rounds: 6,
        ..keeps(SEMAPHORE, 10)
    };
    plan(
        settings,
        vec![
            calls(1000, 1, keeps(SEMAPHORE, 5000)),
            calls(2000, 0, timed),
        ],
    )
}

/// The server is away when a waiter's entry is to leave the queue.
/// A call without a caller is sent again when there is a connection, and not before.
fn leaves_while_the_server_is_away() -> Plan {
    let timed = Call {
        ask: Ask::For(Duration::from_millis(100)),
        ..keeps(SEMAPHORE, 10)
    };
    let away = LinkFault::Refuse(Duration::from_secs(3));
    plan(
        Settings::plain(2, 1),
        vec![
            calls(1000, 1, keeps(SEMAPHORE, 9000)),
            calls(1500, 0, timed),
            at(1598, What::Link(0, away)),
        ],
    )
}

/// Notifications no longer reach a waiter.
/// The client does not check by itself.
fn hears_nothing() -> Plan {
    let mut settings = Settings::plain(2, 1);
    settings.safety_interval = Duration::from_secs(600);
    plan(
        settings,
        vec![
            calls(1000, 0, keeps(SEMAPHORE, 8000)),
            calls(1500, 1, keeps(SEMAPHORE, 10)),
            at(4000, What::Link(1, LinkFault::Unheard)),
        ],
    )
}

/// A client asks a server that has become a replica for the outcome of its call.
/// The effect is on record with the permits, and nothing can be written there just then.
fn asked_of_a_replica() -> Plan {
    let mut settings = Settings::plain(1, 2);
    settings.watched = vec![true];
    settings.latency = vec![Duration::from_millis(50)];
    let read_only = ServerFault::ReadOnly(Duration::from_secs(1));
    plan(
        settings,
        vec![
            calls(1000, 0, keeps(SEMAPHORE, 3000)),
            at(1500, What::Link(0, LinkFault::LoseAnswer(Duration::ZERO))),
            calls(1500, 0, keeps(SEMAPHORE, 10)),
            at(1580, What::Server(0, read_only)),
        ],
    )
}

/// Callers of two clients are served one after the other, and something is done to their queue now and then.
fn beside_a_queue(done: impl IntoIterator<Item = What>) -> Plan {
    let mut settings = Settings::plain(2, 1);
    settings.watched = vec![true];
    let mut events = Vec::new();
    for number in 0..8 {
        let call = Call {
            guard: number < 4,
            ..keeps(SEMAPHORE, 600)
        };
        events.push(calls(1000 + number, number as usize % 2, call));
    }
    for (what, millis) in done.into_iter().zip((1300..).step_by(500)) {
        events.push(at(millis, what));
    }
    plan(settings, events)
}

/// Each key of a queue is evicted while callers wait.
fn queue_evicted() -> Plan {
    let keys = [
        "redisson_sc_queue*",
        "redisson_sc_notes*",
        "redisson_sc_grants*",
    ];
    beside_a_queue(keys.map(|keys| What::Server(0, ServerFault::Evict(keys))))
}

/// A text stands in place of each key of a queue while callers wait.
fn queue_overwritten() -> Plan {
    let writes = |which| What::Meddle(Meddling::Scribble(which, "7"));
    beside_a_queue((0..6).map(writes))
}
