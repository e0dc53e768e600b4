//! Clients may not use one command for a while, in a script or out of it: what went before it in the same call is there.

use std::time::Duration;

use fastrand::Rng;

use super::calls::Give;
use super::chance::{chance, millis, pick};
use super::faults::ServerFault;
use super::settings::Settings;
use super::shifts::Shift;
use super::{Event, What};

/// What scripts use, and clients by themselves.
const COMMANDS: [&str; 42] = [
    "del",
    "evalsha",
    "exists",
    "get",
    "hdel",
    "hexists",
    "hget",
    "hgetall",
    "hlen",
    "hmget",
    "hset",
    "incr",
    "incrby",
    "llen",
    "lpush",
    "pexpire",
    "pttl",
    "publish",
    "pubsub|numsub",
    "pubsub|shardnumsub",
    "rename",
    "rpop",
    "sadd",
    "scard",
    "set",
    "smismember",
    "spublish",
    "srem",
    "ssubscribe",
    "subscribe",
    "time",
    "unsubscribe",
    "wait",
    "zadd",
    "zcard",
    "zcount",
    "zmscore",
    "zrange",
    "zrangebyscore",
    "zrank",
    "zrem",
    "zscore",
];

/// Nobody gives anything back without waiting for the answer: what is refused then is not given back later. Drawn apart.
pub(super) fn is_something(seed: u64, settings: &Settings, events: &mut Vec<Event>) {
    let rng = &mut Rng::with_seed(seed ^ 0x666f_7262_6964_6465);
    if !chance(rng, 15) {
        return;
    }
    for event in events.iter_mut() {
        if let What::Call(_, call) = &mut event.what {
            call.patience = None;
            if call.give == Give::Drop {
                call.give = Give::Call;
            }
        }
    }
    let until = settings.healing.as_millis() as u64;
    for _ in 0..rng.usize(1..5) {
        let most = pick(rng, &[20, 500, 5000]);
        let fault = ServerFault::Forbid(pick(rng, &COMMANDS), millis(rng, 1..most));
        let what = match settings.masters {
            0 => What::Server(fault),
            masters => What::Shift(Shift::Fault(rng.usize(..masters), fault)),
        };
        let at = millis(rng, 0..until);
        events.push(Event { at, what });
    }
}
