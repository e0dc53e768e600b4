//! Clients may not use one command for a while, in a script or out of it: what went before it in the same call is there.

use std::time::Duration;

use fastrand::Rng;

use super::calls::{Call, Give};
use super::chance::{chance, millis, pick};
use super::faults::{Life, LinkFault, ServerFault};
use super::settings::Settings;
use super::shifts::Shift;
use super::{Event, What};
use crate::judge::Object;

/// What scripts change, mostly behind something else; but `ZADD` and `ZREM`, without which permits may be lost or doubled, as
/// the guide says.
const CHANGES: [&str; 12] = [
    "decrby", "del", "hdel", "hset", "incr", "incrby", "pexpire", "publish", "sadd", "set",
    "spublish", "srem",
];

/// What else they use, and clients by themselves.
const OTHERS: [&str; 30] = [
    "evalsha",
    "exists",
    "get",
    "hexists",
    "hget",
    "hgetall",
    "hlen",
    "hmget",
    "llen",
    "mget",
    "lpush",
    "pttl",
    "pubsub|numsub",
    "pubsub|shardnumsub",
    "rename",
    "rpop",
    "scard",
    "smismember",
    "ssubscribe",
    "subscribe",
    "time",
    "unsubscribe",
    "wait",
    "zcard",
    "zcount",
    "zmscore",
    "zrange",
    "zrangebyscore",
    "zrank",
    "zscore",
];

/// Drawn apart.
pub(super) fn is_something(seed: u64, settings: &mut Settings, events: &mut Vec<Event>) {
    let rng = &mut Rng::with_seed(seed ^ 0x666f_7262_6964_6465);
    if !chance(rng, 25) {
        return;
    }
    let until = settings.healing.as_millis() as u64;
    let mut begins = millis(rng, 0..until);
    for _ in 0..rng.usize(1..8) {
        let command = match chance(rng, 80) {
            true => pick(rng, &CHANGES),
            false => pick(rng, &OTHERS),
        };
        let most = pick(rng, &[20, 500, 5000, 12_000]);
        let time = millis(rng, 1..most);
        let fault = ServerFault::Forbid(command, time);
        let what = match settings.masters {
            0 => What::Server(fault),
            masters => What::Shift(Shift::Fault(rng.usize(..masters), fault)),
        };
        events.push(Event { at: begins, what });
        if chance(rng, 30) {
            // What is asked about then was carried out before.
            let lost = LinkFault::LoseAnswer(Duration::ZERO);
            let at = begins.saturating_sub(millis(rng, 0..20));
            let what = What::Link(rng.usize(..settings.clients), lost);
            events.push(Event { at, what });
        }
        if chance(rng, 40) {
            events.extend(gives_back_unheard(rng, settings, begins));
        }
        if chance(rng, 15) {
            // What was refused is put aside.
            let at = begins + millis(rng, 0..time.as_millis() as u64 + 500);
            let ends = Life::ShutDown {
                drop_callers: true,
                limit: None,
            };
            let what = What::Life(rng.usize(..settings.clients), ends);
            events.push(Event { at, what });
        }
        // One at a time.
        begins += time + millis(rng, 0..until / 4);
        if begins > settings.healing {
            break;
        }
    }
}

/// Somebody gives back what it has no guard of as something becomes forbidden, and goes after a while, in which it does not look whether there is
/// an answer. Others of its client are there meanwhile.
fn gives_back_unheard(rng: &mut Rng, settings: &mut Settings, begins: Duration) -> Vec<Event> {
    let object = match settings.locks {
        0 => settings.one_more_semaphore(6),
        locks => match rng.bool() {
            true => settings.one_more_semaphore(6),
            false => Object::Lock(rng.usize(..locks)),
        },
    };
    let place = rng.usize(..settings.clients);
    let hold = settings.latency[place] * 4 + millis(rng, 0..100);
    let unheard = Call {
        guard: false,
        give: Give::Drop,
        hold,
        pause: millis(rng, 1..300),
        ..Call::looking_in(object)
    };
    let at = (begins + millis(rng, 0..20)).saturating_sub(hold);
    let given = at + hold + settings.latency[place] * 2;
    let mut all = vec![(at, unheard.clone())];
    if object != Object::Lock(0) && chance(rng, 50) {
        // Others of the client give back what they have.
        for permits in 1..3 {
            let unheard = unheard.clone();
            all.push((at, Call { permits, ..unheard }));
        }
    }
    for _ in 0..rng.usize(1..4) {
        all.push((given + millis(rng, 0..10), Call::looking_in(object)));
    }
    let calls = all.into_iter().map(|(at, call)| {
        let what = What::Call(place, call);
        Event { at, what }
    });
    calls.collect()
}
