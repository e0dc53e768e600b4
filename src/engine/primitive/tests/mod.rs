//! The deciding half of a line under three small primitives, each with a server of a few lines: a latch, a fair lock
//! whose queue stands in the server, and a read-write lock.

mod chance;
mod fair;
mod gate;
mod orders;
mod rwlock;
mod verdicts;
mod world;

use super::Primitive;
use super::state::State;
use crate::engine::request::Arg;

/// A primitive with a server to try it on.
trait Subject: Primitive {
    type Server: Server;

    fn new() -> Self;

    /// What caller number so and so waits for.
    fn want(caller: usize) -> Self::Want;

    /// What it does with what it was granted.
    fn release(caller: usize) -> Option<Self::Call>;
}

/// A server that carries batches out.
trait Server: Default {
    /// Carries the steps out: the answer, and on which channels it publishes.
    fn execute(&mut self, steps: &[String]) -> (String, Vec<String>);

    /// An outsider, who stood in the way from the beginning, goes: on which channels that is published.
    fn outsider_goes(&mut self) -> Vec<String>;

    /// Whether nobody holds anything or stands anywhere.
    fn is_clean(&self) -> bool;
}

fn word(arg: Arg) -> String {
    match arg {
        Arg::Word(word) => word.to_owned(),
        Arg::Publish => "PUBLISH".to_owned(),
        Arg::Text(text) => text.to_string(),
        Arg::Number(number) => number.to_string(),
        Arg::Sequence(number) => number.to_string(),
        Arg::Bytes(bytes) => format!("{bytes:?}"),
    }
}

/// A line's state outside of any line.
fn state<P: Subject>() -> State<P> {
    State::new(P::new(), false)
}
