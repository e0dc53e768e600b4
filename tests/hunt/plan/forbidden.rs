//! Clients may not use one command for a while, in a script or out of it: what went before it in the same call is there.

use std::time::Duration;

use fastrand::Rng;

use super::chance::{chance, millis, pick};
use super::faults::{LinkFault, ServerFault};
use super::settings::Settings;
use super::shifts::Shift;
use super::{Event, What};

/// What scripts change, mostly behind something else.
const CHANGES: [&str; 13] = [
    "del", "hdel", "hset", "incr", "incrby", "pexpire", "publish", "sadd", "set", "spublish",
    "srem", "zadd", "zrem",
];

/// What else they use, and clients by themselves.
const OTHERS: [&str; 29] = [
    "evalsha",
    "exists",
    "get",
    "hexists",
    "hget",
    "hgetall",
    "hlen",
    "hmget",
    "llen",
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
pub(super) fn is_something(seed: u64, settings: &Settings, events: &mut Vec<Event>) {
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
        let most = pick(rng, &[20, 500, 5000]);
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
        // One at a time.
        begins += time + millis(rng, 0..until / 4);
        if begins > settings.healing {
            break;
        }
    }
}
