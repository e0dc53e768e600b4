//! A few scripts about what Redis makes of Lua.

use fastrand::Rng;

use super::{Call, Form, texts};
use crate::sim::differential::commands::{KEYS, choose};

const LANGUAGE: &[&str] = &[
    "return {1, 2.9, -2.9, 'a', false, true, {1, {2}}, nil, 3}",
    "return {1e300, -1e300, 0/0, 1/0}",
    "return redis.call('SET', KEYS[1], ARGV[1])",
    "redis.call('SET', KEYS[1], 1.5) return redis.call('GET', KEYS[1])",
    "redis.call('RPUSH', KEYS[1], 1e17, 1e300, 0/0, 0.1, 3, -1/0, 2^53, 12345678901234567890)",
    "return {redis.pcall('INCR', KEYS[1])}",
    "local done, problem = pcall(redis.call, 'INCR', KEYS[1]) return {done, type(problem), problem}",
    "local done, problem = pcall(function() error('x') end) return problem",
    "local done, problem = pcall(function() error({err = 'MY x'}) end) return problem",
    "error({err = 'MY own'})",
    "error('plain')",
    "local function f()\nreturn redis.call('LPUSH', KEYS[1], 'x')\nend\nreturn f()",
    "return redis.error_reply(ARGV[1])",
    "return redis.status_reply(ARGV[1])",
    "return {redis.error_reply('-CODE text'), redis.error_reply('word'), redis.error_reply('two words')}",
    "return nothing",
    "something = 1",
    "return redis.call('NOPE')",
    "return redis.call('GET')",
    "return redis.call('GET', {})",
    "return redis.call()",
    "return redis.call('SUBSCRIBE', 'x')",
    "return redis.sha1hex(ARGV[1])",
    "return struct.pack('>I6I6I2I2', tonumber(ARGV[1]) or 7, 2^47 + 1, 65535, 258)",
    "return {redis.call('TIME'), redis.call('PTTL', KEYS[1]), redis.call('TYPE', KEYS[1]), tostring(ARGV[1] / 3)}",
];

pub(super) fn any(rng: &mut Rng) -> Call {
    Call {
        source: choose_static(rng),
        keys: texts(&[choose(rng, KEYS)]),
        arguments: texts(&[choose(
            rng,
            &[
                "5",
                "-7",
                "0",
                "1.5",
                "two words",
                "-CODE x",
                "word",
                "1e20",
                "\r\nx\r\n",
            ],
        )]),
        form: Form::Plain,
    }
}

fn choose_static(rng: &mut Rng) -> &'static str {
    LANGUAGE[rng.usize(..LANGUAGE.len())]
}
