//! What stands in the keys of the crate's objects: written so that there is something for the scripts to do, or by somebody who
//! knows nothing of them.

use fastrand::Rng;

use super::commands::{choose, fill};
use super::script_calls::Subject;
use super::step::Words;

/// What may stand in a record.
pub const NOTED: &[&str] = &[
    "0000000000000003 done",
    "0000000000000040 done -1 2 1",
    "0000000000000020 none",
    "0000000000000007 back none",
    "0000000000009999 done -1 0",
    "0000000000000050 refused ERR x",
    "0000000000000002 forced",
    "0000000000000060",
    "12 done",
    "abc",
    "",
];

/// When somebody may have come to wait, or a grant may end, in microseconds.
pub const TIMES: &[&str] = &[
    "1799999995000000",
    "1799999999000000",
    "1800000000123000",
    "1800000001000000",
    "1800000030000000",
    "1800060000000000",
    "1e3",
    "inf",
];

/// When a permit may end.
pub const ENDS: &[&str] = &[
    "1800000000123",
    "1800000001000",
    "1800000030000",
    "1800060000000",
    "922337203685477",
    "1799999999000",
    "1800000000123.5",
    "1e3",
    "inf",
    "-inf",
];

/// What keeps an object in a state in which there is something for its scripts to do.
const fn tended(subject: Subject) -> &'static [&'static str] {
    match subject {
        Subject::Semaphores => &[
            "SET s 5",
            "SET s 3 PX I",
            "SET s 0",
            "SET s 1",
            "INCRBY s 2",
            "INCRBY s2 I",
            "DEL s",
            "ZADD queue A E",
            "ZADD queue A E A E",
            "ZADD grants A E",
            "ZADD grants 1799999999000000 E",
            "HSET notes watch 11111111-2222-3333-4444-555555555555",
            "HSET notes left I credit 3 rate 0.5",
            "DEL queue grants notes",
            "DEL R*",
        ],
        Subject::Latch => &[
            "SET latch 2",
            "SET latch 2 PX 5000",
            "DEL latch",
            "SET s 3",
            "DEL s",
            "DEL R*",
        ],
        Subject::Permits => &[
            "SET jobs 5",
            "INCRBY jobs 3",
            "SET jobs 0 PX 60000",
            "ZADD permits T D",
            "ZADD permits T D T D",
            "ZADD permits 1800060000000 D 1800060000000 D",
            "ZADD permits T 7065726d69742d303030303030303031",
            "ZREM permits D",
            "PEXPIRE permits 60000",
            "DEL jobs permits",
            "DEL jobs2 permits2",
            "DEL turns notes",
            "DEL R*",
        ],
        Subject::Locks => &[
            "DEL lock",
            "HSET lock 11111111-2222-3333-4444-555555555555:4 1",
            "HSET lock 11111111-2222-3333-4444-555555555555:5 1",
            "HSET lock aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee:4 2",
            "PEXPIRE lock 60000",
            "INCR token",
            "ZADD waiters A W",
            "ZADD waiters A W A W",
            "HSET notes watch 11111111-2222-3333-4444-555555555555",
            "HSET notes lent aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
            "HSET notes left 0 credit 3 rate 0.5",
            "DEL waiters notes",
            "DEL waiters notes lock",
            "DEL R*",
        ],
        Subject::Recipes => &[
            "INCR counter",
            "SET counter V",
            "ZADD times S M",
            "ZADD times 1800000000123 M",
            "ZADD owners I M",
            "ZREM times M",
            "ZREM owners M",
            "DEL times owners",
            "RPUSH tokens 1",
            "SET slot1 M PX 60000",
            "SET slot2 M",
            "DEL slot1 slot2 slot3",
            "SET peers x PX 1000",
            "SET peers x",
            "DEL peers",
            "DEL peers line notes",
            "SADD set M*",
            "DEL R*",
        ],
    }
}

/// What somebody may have written there.
const fn spoiled(subject: Subject) -> &'static [&'static str] {
    match subject {
        Subject::Semaphores => &[
            "SET R N",
            "LPUSH R x",
            "SET s V",
            "HSET s f 1",
            "SET s2 V",
            "SET queue x",
            "SET grants x",
            "SET notes x",
            "ZADD queue S E",
            "ZADD grants S M",
            "HSET notes look V credit V",
        ],
        Subject::Latch => &["SET R N", "LPUSH R x", "SET latch V", "HSET latch f 1"],
        Subject::Permits => &[
            "SET R N",
            "SET jobs V",
            "HSET jobs f 1",
            "SET permits x",
            "ZADD permits S D",
            "SET turns x",
        ],
        Subject::Locks => &[
            "SET R N",
            "LPUSH R x",
            "SET waiters x",
            "SET notes x",
            "HSET notes look V lent V",
            "SET token V",
            "SET token 9007199254740991",
            "LPUSH token x",
            "SET lock x",
            "HSET lock 11111111-2222-3333-4444-555555555555:4 V",
        ],
        Subject::Recipes => &[
            "SET R N",
            "SET line x",
            "SET notes x",
            "SET times x",
            "HSET counter f 1",
            "SET set x",
            "LPUSH slot1 x",
        ],
    }
}

pub fn tending(rng: &mut Rng, subject: Subject) -> Words {
    let form = choose(rng, tended(subject));
    fill(rng, form)
}

pub fn spoiling(rng: &mut Rng, subject: Subject) -> Words {
    let form = choose(rng, spoiled(subject));
    fill(rng, form)
}
