//! Runs sequences of steps on both servers, and makes one by which they differ as short as it gets.

use fastrand::Rng;

use super::step::{CONNECTIONS, Mood, Step, Words};
use super::tally::Tally;
use super::world::{Both, Real, World};
use crate::sim::server::Reply;

/// Where the two differ.
#[derive(Debug)]
struct Difference {
    /// After which step; none: when all was compared at the end.
    after: Option<Step>,
    /// A command that was sent to compare what is stored.
    looking: Option<String>,
    model: Vec<Reply>,
    real: Vec<Reply>,
}

/// Tries so many random sequences of `length` steps; panics with the shortest by which the two differ. What the scripts have
/// answered.
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

/// Runs one sequence; panics with the shortest part of it by which the two differ.
fn check(real: &mut Real, steps: &[Step], origin: &str, tally: &mut Tally) {
    if difference(real, steps, tally).is_none() {
        return;
    }
    let shortest = shorten(real, steps.to_vec());
    let found = difference(real, &shortest, tally);
    panic!("{origin}: model and server differ.\n{shortest:#?}\n{found:#?}");
}

/// Leaves out what can be left out: halves, quarters and so on down to single steps.
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

/// The first difference.
fn difference(real: &mut Real, steps: &[Step], tally: &mut Tally) -> Option<Difference> {
    let mut world = World::new(real);
    for step in steps {
        match step {
            Step::Clock(micros) => world.step_clock(*micros),
            Step::Fault(fault, on) => world.fault(*fault, *on),
            Step::Reconnect(connection) => world.reconnect(*connection),
            Step::Command(connection, words) => {
                let both = world.command(*connection, words);
                tally.note(words, &both.real);
                if let Some((model, real)) = differ(words, both) {
                    return Some(Difference {
                        after: Some(step.clone()),
                        looking: None,
                        model,
                        real,
                    });
                }
            }
        }
    }
    compare_messages(&mut world).or_else(|| compare_keys(&mut world))
}

/// Whether there is a message that the model has not sent.
fn compare_messages(world: &mut World<'_>) -> Option<Difference> {
    (0..CONNECTIONS).find_map(|connection| look(world, connection, &["PING", "last"]))
}

/// All keys: when they end, and what they hold.
fn compare_keys(world: &mut World<'_>) -> Option<Difference> {
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

fn look(world: &mut World<'_>, connection: usize, command: &[&str]) -> Option<Difference> {
    look_at(world, connection, words(command))
}

fn look_at(world: &mut World<'_>, connection: usize, words: Words) -> Option<Difference> {
    let both = world.command(connection, &words);
    differ(&words, both).map(|(model, real)| Difference {
        after: None,
        looking: Some(format!("{:?}", Step::Command(connection, words))),
        model,
        real,
    })
}

/// What the two say, if it is not the same.
pub fn differ(words: &[Vec<u8>], both: Both) -> Option<(Vec<Reply>, Vec<Reply>)> {
    let Both {
        mut model,
        mut real,
    } = both;
    // What Redis says of its lists in no order.
    let chunk = match words
        .first()
        .map(|name| name.to_ascii_uppercase())
        .as_deref()
    {
        Some(b"HGETALL") => Some(2),
        Some(b"HKEYS" | b"SMEMBERS" | b"KEYS") => Some(1),
        // The holders of a set semaphore, each with two words more.
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
