//! Runs sequences of steps on both servers, and makes one by which they differ as short as it gets.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::step::{CONNECTIONS, Mood, Step, Words};
use super::world::{Both, Real, World};
use crate::sim::scripts::name_of;
use crate::sim::server::Reply;

/// How often each script has answered, and how often it has refused. Two servers that refuse every call agree, and this
/// proves nothing.
pub type Tally = BTreeMap<&'static str, [usize; 2]>;

/// Notes the answer to a command that was a call of one of the crate's scripts.
fn note(tally: &mut Tally, words: &Words, replies: &[Reply]) {
    let name = words.get(1).and_then(|word| name_of(word));
    if let (Some(name), Some(reply)) = (name, replies.first()) {
        let refuses = matches!(reply, Reply::Error(_));
        tally.entry(name).or_default()[usize::from(refuses)] += 1;
    }
}

/// Tries `sequences` random sequences of `length` steps, and returns the tally of the scripts. Panics with the shortest sequence by
/// which the two servers differ.
pub fn explore(real: &mut Real, seed: u64, sequences: usize, length: usize) -> Tally {
    let mut tally = Tally::default();
    let mut rng = Rng::with_seed(seed);
    for _ in 0..sequences {
        let mut mood = Mood::random(&mut rng);
        let mut steps = Step::first(&mood);
        steps.extend((0..length).map(|_| Step::random(&mut rng, &mut mood)));
        check(real, &steps, &format!("seed {seed}"), &mut tally);
    }
    tally
}

/// Runs one sequence. Panics with the shortest part of it by which the two servers differ.
fn check(real: &mut Real, steps: &[Step], origin: &str, tally: &mut Tally) {
    if difference(real, steps, tally).is_none() {
        return;
    }
    let shortest = shorten(real, steps.to_vec());
    let found = difference(real, &shortest, tally);
    panic!("{origin}: model and server differ.\n{shortest:#?}\n{found:#?}");
}

/// Leaves out the steps that are not needed: halves, quarters and so on down to single steps.
fn shorten(real: &mut Real, mut steps: Vec<Step>) -> Vec<Step> {
    let mut size = steps.len().div_ceil(2);
    loop {
        let mut start = 0;
        let before = steps.len();
        while start < steps.len() {
            let end = steps.len().min(start + size);
            let mut fewer = steps.clone();
            fewer.drain(start..end);
            if difference(real, &fewer, &mut Tally::default()).is_some() {
                steps = fewer;
            } else {
                start = end;
            }
        }
        if size > 1 {
            size = size.div_ceil(2);
        } else if steps.len() == before {
            return steps;
        }
    }
}

/// The first difference: the command, and the replies of both servers.
fn difference(real: &mut Real, steps: &[Step], tally: &mut Tally) -> Option<String> {
    let mut world = World::new(real);
    for step in steps {
        match step {
            Step::Clock(micros) => world.step_clock(*micros),
            Step::Fault(fault, on) => world.fault(*fault, *on),
            Step::Reconnect(connection) => world.reconnect(*connection),
            Step::Command(connection, words) => {
                let both = world.command(*connection, words);
                note(tally, words, &both.real);
                if let Some((model, real)) = differ(words, both) {
                    return Some(format!("{step:?}: {model:?}, {real:?}"));
                }
            }
        }
    }
    compare_messages(&mut world).or_else(|| compare_keys(&mut world))
}

/// A difference if the real server has sent a message that the model has not sent.
fn compare_messages(world: &mut World<'_>) -> Option<String> {
    (0..CONNECTIONS).find_map(|connection| look(world, connection, &["PING", "last"]))
}

/// Compares all keys: when they end, and their values.
fn compare_keys(world: &mut World<'_>) -> Option<String> {
    world.heal();
    let found = look(world, 0, &["KEYS", "*"]);
    if found.is_some() {
        return found;
    }
    let Some(Reply::Array(keys)) = world.command(0, &words(&["KEYS", "*"])).model.pop() else {
        panic!("KEYS answers with an array");
    };
    for key in keys {
        let Reply::Bulk(key) = key else {
            panic!("a key is a text")
        };
        let found = [
            &["PEXPIRETIME"][..],
            &["TYPE"],
            &["GET"],
            &["HGETALL"],
            &["SMEMBERS"],
            &["LRANGE", "", "0", "-1"],
            &["ZRANGE", "", "0", "-1", "WITHSCORES"],
        ]
        .into_iter()
        .find_map(|command| {
            let mut command = words(command);
            match command.iter().position(Vec::is_empty) {
                Some(place) => command[place] = key.clone(),
                None => command.push(key.clone()),
            }
            look_at(world, 0, command)
        });
        if found.is_some() {
            return found;
        }
    }
    None
}

fn words(texts: &[&str]) -> Words {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn look(world: &mut World<'_>, connection: usize, command: &[&str]) -> Option<String> {
    look_at(world, connection, words(command))
}

fn look_at(world: &mut World<'_>, connection: usize, words: Words) -> Option<String> {
    let both = world.command(connection, &words);
    let (model, real) = differ(&words, both)?;
    let command = Step::Command(connection, words);
    Some(format!("at the end: {command:?}: {model:?}, {real:?}"))
}

/// The replies of both servers, if they differ.
pub fn differ(words: &[Vec<u8>], both: Both) -> Option<(Vec<Reply>, Vec<Reply>)> {
    let Both {
        mut model,
        mut real,
    } = both;
    // The size of an item in a reply that Redis gives in no order.
    let chunk = match words
        .first()
        .map(|name| name.to_ascii_uppercase())
        .as_deref()
    {
        Some(b"HGETALL") => Some(2),
        Some(b"HKEYS" | b"SMEMBERS" | b"KEYS") => Some(1),
        // The holders of a set semaphore, each with two more words.
        Some(b"EVAL" | b"EVALSHA") if words.iter().any(|word| word == b"list") => Some(3),
        _ => None,
    };
    if let Some(chunk) = chunk {
        for reply in model.iter_mut().chain(&mut real) {
            sort(reply, chunk);
        }
    }
    (model != real).then_some((model, real))
}

fn sort(reply: &mut Reply, chunk: usize) {
    if let Reply::Array(items) = reply {
        let mut chunks: Vec<Vec<Reply>> = items.chunks(chunk).map(<[Reply]>::to_vec).collect();
        chunks.sort();
        *items = chunks.concat();
    }
}
