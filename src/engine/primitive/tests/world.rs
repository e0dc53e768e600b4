//! Callers, a line's state and a server, moved one step at a time.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Server, Subject, state, word};
use crate::clock::Moment;
use crate::engine::primitive::endings::Answered;
use crate::engine::primitive::state::{State, Task};
use crate::engine::primitive::{Batch, Outcome, Ticket, Told};
use crate::engine::wakeups::Wake;
use crate::error::Result;

/// How long a caller waits that has a deadline.
pub(super) const WAIT: Duration = Duration::from_secs(10);

/// Between one step and the next.
const MOMENT: Duration = Duration::from_micros(1);

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Arrive(usize),
    /// The same, with a deadline.
    ArriveFor(usize),
    /// The same, to ask once.
    Try(usize),
    Leave(usize),
    /// All deadlines come.
    TimePasses,
    /// What was granted is given back.
    Release(usize),
    OutsiderGoes,
    /// The batch under way is carried out and answered.
    Answer,
    /// It turns out not to have been carried out.
    Again,
    /// Nobody will ever know, though it was carried out.
    LoseReply,
    /// The same, and it was not.
    LoseRequest,
}

enum Caller<P: Subject> {
    Absent,
    Waiting(Ticket, oneshot::Receiver<Result<Outcome<P>>>),
    Holding,
    Gone,
}

pub(super) struct World<P: Subject> {
    pub(super) state: State<P>,
    pub(super) server: P::Server,
    /// What is under way, and since when.
    flight: Option<(Batch<P>, Vec<String>, Instant)>,
    /// The channels are heard.
    listens: bool,
    callers: Vec<Caller<P>>,
    outsider: bool,
    now: Instant,
    /// How often an outcome was never learned.
    pub(super) lost: usize,
    /// Who was told that he waited in vain, or in doubt.
    pub(super) refused: usize,
}

impl<P: Subject> World<P> {
    pub(super) fn new(callers: usize) -> Self {
        World {
            state: state(),
            server: P::Server::default(),
            flight: None,
            listens: false,
            callers: (0..callers).map(|_| Caller::Absent).collect(),
            outsider: true,
            now: Instant::now(),
            lost: 0,
            refused: 0,
        }
    }

    /// What can happen next.
    pub(super) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (number, caller) in self.callers.iter().enumerate() {
            match caller {
                Caller::Absent => {
                    steps.extend([Step::Arrive, Step::ArriveFor, Step::Try].map(|s| s(number)));
                }
                Caller::Waiting(..) => steps.push(Step::Leave(number)),
                Caller::Holding => steps.push(Step::Release(number)),
                Caller::Gone => {}
            }
        }
        if self.outsider {
            steps.push(Step::OutsiderGoes);
        }
        if self.state.alarm().is_some() {
            steps.push(Step::TimePasses);
        }
        if self.flight.is_some() {
            steps.extend([Step::Answer, Step::Again]);
            if self.lost == 0 {
                steps.extend([Step::LoseReply, Step::LoseRequest]);
            }
        }
        steps
    }

    pub(super) fn step(&mut self, step: Step) {
        self.now += MOMENT;
        match step {
            Step::Arrive(caller) => self.join(caller, None),
            Step::ArriveFor(caller) => self.join(caller, Some(self.now + WAIT)),
            Step::Try(caller) => self.join(caller, Some(self.now)),
            Step::Leave(caller) => self.leave(caller),
            Step::TimePasses => {
                self.now += WAIT;
                self.state.ring(self.now);
            }
            Step::Release(caller) => {
                self.callers[caller] = Caller::Gone;
                self.state.owe(P::release(caller), self.now);
            }
            Step::OutsiderGoes => {
                self.outsider = false;
                let published = self.server.outsider_goes();
                self.publish(published);
            }
            Step::Answer => self.answer(),
            Step::Again => {
                let (batch, ..) = self.flight.take().expect("it is under way");
                self.state.put_back(batch, self.now);
            }
            Step::LoseReply | Step::LoseRequest => {
                let (batch, steps, _) = self.flight.take().expect("it is under way");
                if step == Step::LoseReply {
                    let (_, published) = self.server.execute(&steps);
                    self.publish(published);
                }
                self.lost += 1;
                self.state.give_up(&batch, self.now);
            }
        }
        self.hear();
        self.depart();
    }

    fn join(&mut self, caller: usize, deadline: Option<Instant>) {
        let (reply, outcome) = oneshot::channel();
        let ticket = self.state.join(P::want(caller), reply, deadline, self.now);
        self.callers[caller] = Caller::Waiting(ticket, outcome);
    }

    /// As a caller's future does when it is dropped.
    fn leave(&mut self, caller: usize) {
        let before = std::mem::replace(&mut self.callers[caller], Caller::Gone);
        if let Caller::Waiting(ticket, mut outcome) = before {
            outcome.close();
            if let Ok(Ok(Outcome::Granted(grant))) = outcome.try_recv() {
                self.state.owe(P::give_back(grant), self.now);
            } else {
                self.state.leave(ticket, self.now);
                self.listens = self.state.listens();
            }
        }
    }

    /// Who listens hears it.
    fn publish(&mut self, channels: Vec<String>) {
        for channel in channels.into_iter().filter(|_| self.listens) {
            let heard = self.state.primitive.channels("own", &self.state.waiters);
            if heard.contains(&channel) {
                let message = Wake::Message(Vec::new());
                self.state.heard(&channel, &message, true, self.now);
            }
        }
    }

    fn answer(&mut self) {
        let (batch, steps, sent) = self.flight.take().expect("it is under way");
        let (answer, published) = self.server.execute(&steps);
        let mut words = answer.split_ascii_whitespace();
        let verdict = self.state.primitive.decode(&batch, &mut words);
        let answered = Answered {
            verdict: verdict.unwrap_or_else(|| panic!("{answer:?} is not read")),
            sent,
            now: self.now,
        };
        assert_eq!(words.next(), None, "{answer:?} is read to its end");
        let told = self.state.arrive("name", batch, answered);
        // Nothing is said between the answer and this.
        self.listens = self.state.listens();
        self.tell(told);
        // What it has published has been heard behind it.
        self.publish(published);
    }

    fn tell(&mut self, told: Told<P>) {
        let unlearned = told.tell();
        self.state.unlearned(unlearned, self.now);
    }

    /// Callers see what they were told.
    fn hear(&mut self) {
        for caller in &mut self.callers {
            let Caller::Waiting(_, outcome) = caller else {
                continue;
            };
            match outcome.try_recv() {
                Ok(Ok(Outcome::Granted(_))) => *caller = Caller::Holding,
                Ok(_) => {
                    *caller = Caller::Gone;
                    self.refused += 1;
                }
                Err(oneshot::error::TryRecvError::Empty) => {}
                Err(error) => panic!("told nothing: {error}"),
            }
        }
    }

    /// A round begins as soon as there is something to do.
    fn depart(&mut self) {
        if self.flight.is_some() || !self.state.has_work() {
            return;
        }
        match self.state.depart(Moment::now()) {
            Some(Task::Batch(batch)) => {
                let mut args = Vec::new();
                self.state.primitive.encode(&batch, &mut args);
                assert!(!args.is_empty(), "a batch has a step");
                let steps = args.into_iter().map(word).collect();
                self.flight = Some((*batch, steps, self.now));
            }
            Some(Task::Command(_)) => unreachable!("there are none here"),
            None => assert!(!self.state.has_work(), "it would depart for ever"),
        }
    }

    /// Everything that is still to happen happens, without faults: nobody who waits may be left, and nothing.
    pub(super) fn finish(&mut self) {
        if self.outsider {
            self.step(Step::OutsiderGoes);
        }
        for _ in 0..100 {
            let holding = |caller: &Caller<P>| matches!(caller, Caller::Holding);
            if self.flight.is_some() {
                self.step(Step::Answer);
            } else if let Some(caller) = self.callers.iter().position(holding) {
                self.step(Step::Release(caller));
            } else {
                break;
            }
        }
        let waiting = |caller: &Caller<P>| matches!(caller, Caller::Waiting(..));
        assert!(!self.callers.iter().any(waiting), "somebody waits for ever");
        assert!(self.state.waiters.is_empty() && self.state.queue.is_empty());
        assert!(self.flight.is_none() && self.state.gone.is_empty());
        assert!(self.server.is_clean(), "something is left in the server");
    }
}
