//! Any value that a server may answer with, for the tests of what reads answers: whatever stands in a key, and whoever
//! has written it, nobody panics.

use proptest::prelude::*;

use crate::transport::Value;

/// Numbers at the ends of their ranges, and such as stand in answers.
pub(crate) fn number() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => -4..20_i64,
        1 => any::<i64>(),
        1 => proptest::sample::select(vec![i64::MIN, i64::MIN + 1, i64::MAX, u32::MAX.into(), i32::MIN.into()]),
    ]
}

fn word() -> impl Strategy<Value = String> {
    let words = [
        "",
        "-",
        "-0",
        "missing",
        "stale",
        "unreadable",
        "refused",
        "done",
        "locked",
        "units",
        "1:2",
        "9:-1",
        ":",
        "1,2",
        "0",
        "101",
        "1.5",
        "nan",
        "18446744073709551615",
        "99999999999999999999",
        "turn:",
    ];
    let turn = proptest::collection::vec(number(), 0..8).prop_map(|numbers| {
        let numbers: Vec<String> = numbers.iter().map(i64::to_string).collect();
        format!("turn:{}", numbers.join(":"))
    });
    prop_oneof![
        4 => number().prop_map(|number| number.to_string()),
        2 => proptest::sample::select(words.map(str::to_owned).to_vec()),
        1 => turn,
        1 => any::<String>(),
    ]
}

/// A text of words as the scripts write them, in any order; or any bytes.
pub(crate) fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => proptest::collection::vec(word(), 0..14).prop_map(|words| words.join(" ").into_bytes()),
        1 => proptest::collection::vec(any::<u8>(), 0..40),
    ]
}

pub(crate) fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Nil),
        Just(Value::Other),
        number().prop_map(Value::Int),
        text().prop_map(Value::BulkString),
        any::<String>().prop_map(Value::SimpleString),
    ];
    leaf.prop_recursive(2, 32, 12, |inner| {
        proptest::collection::vec(inner, 0..12).prop_map(Value::Array)
    })
}
