//! Who carries the rounds of a line out: the caller itself while it is alone, a task as soon as it is not.
//!
//! A caller that finds its line at rest polls the round as part of its own future: no task, no hop.
//! A future can be left unpolled, though, or be dropped, and must then not hold anyone up. So the round
//! does not belong to the caller but lies in the line: whoever comes second (another caller, a message,
//! a timer), and the caller's own `Drop`, move it to a task, which goes on until there is no more to do.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::engine::sync::{Mutex, MutexGuard, yield_now};

/// One round of work: what is queued now, together.
pub(crate) type Round = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Something that works in rounds, one at a time.
pub(crate) trait Rounds: Send + Sync + 'static {
    /// The next round. Called when the last one has ended.
    fn round(self: Arc<Self>) -> Round;

    /// Whether there is something to do. Called under the driver's lock; must not start anything.
    fn has_work(&self) -> bool;

    /// The runtime went away in the middle: nobody will carry out what is queued.
    fn abandon(&self);

    /// The line's driver.
    fn driver(&self) -> &Driver;

    /// Runs `task` in the background.
    fn spawn(&self, task: Round);
}

/// The state of a line's work.
#[derive(Default)]
pub(crate) struct Driver {
    state: Mutex<State>,
}

#[derive(Default)]
enum State {
    #[default]
    Resting,
    /// A caller carries the round out, but is not polling it right now; how to reach it, once it has.
    Inline(u64, Round, Option<Waker>),
    /// That caller is polling it; whether it shall hand the round over afterwards.
    Polling(u64, bool),
    /// A task carries rounds out.
    Task,
}

impl Driver {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic under this lock")
    }
}

/// Sees to it that the work queued just now is carried out, by the caller if it is the only one.
///
/// What is returned, if anything, has to be polled by the caller before what it waits for; it ends when
/// the round has, or has been taken over.
pub(crate) fn drive<R: Rounds>(line: &Arc<R>) -> Option<Inline<R>> {
    let mut state = line.driver().lock();
    if !matches!(*state, State::Resting) {
        hand_over(line, &mut state);
        return None;
    }
    let id = fastrand::u64(..);
    *state = State::Inline(id, Arc::clone(line).round(), None);
    Some(Inline {
        line: Arc::clone(line),
        id,
    })
}

/// Sees to it that the work queued just now is carried out, by a task.
pub(crate) fn kick<R: Rounds>(line: &Arc<R>) {
    let mut state = line.driver().lock();
    if matches!(*state, State::Resting) {
        *state = State::Task;
        spawn(line, None);
    } else {
        hand_over(line, &mut state);
    }
}

/// Lets a caller that carries a round out wait for its answer only: that may have come by another way.
pub(crate) fn let_caller_go<R: Rounds>(line: &Arc<R>) {
    let mut state = line.driver().lock();
    if !matches!(*state, State::Resting) {
        hand_over(line, &mut state);
    }
}

fn hand_over<R: Rounds>(line: &Arc<R>, state: &mut State) {
    match std::mem::replace(state, State::Task) {
        State::Inline(_, round, caller) => {
            spawn(line, Some(round));
            // From now on the caller waits for its answer only.
            if let Some(caller) = caller {
                caller.wake();
            }
        }
        State::Polling(id, _) => *state = State::Polling(id, true),
        other => *state = other,
    }
}

fn spawn<R: Rounds>(line: &Arc<R>, round: Option<Round>) {
    let unfinished = Unfinished(Some(Arc::clone(line)));
    line.spawn(Box::pin(task(unfinished, round)));
}

async fn task<R: Rounds>(mut unfinished: Unfinished<R>, round: Option<Round>) {
    let line = Arc::clone(unfinished.0.as_ref().expect("set until the task ends"));
    let mut round = round;
    loop {
        if let Some(round) = round.take() {
            round.await;
            // The callers that were answered just now run first and bring their next calls: together they
            // cost one script. Measured: without this 16 callers are slower than one script per call.
            yield_now().await;
            yield_now().await;
        }
        {
            let mut state = line.driver().lock();
            if !line.has_work() {
                *state = State::Resting;
                unfinished.0 = None;
                return;
            }
        }
        round = Some(Arc::clone(&line).round());
    }
}

/// Tells the line when its task is dropped before its work is done: the runtime is shutting down.
struct Unfinished<R: Rounds>(Option<Arc<R>>);

impl<R: Rounds> Drop for Unfinished<R> {
    fn drop(&mut self) {
        if let Some(line) = &self.0 {
            line.abandon();
        }
    }
}

/// A round that the caller carries out itself, until someone else comes.
pub(crate) struct Inline<R: Rounds> {
    line: Arc<R>,
    id: u64,
}

impl<R: Rounds> Future for Inline<R> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let line = &self.line;
        let mut round = {
            let mut state = line.driver().lock();
            match std::mem::replace(&mut *state, State::Polling(self.id, false)) {
                State::Inline(id, round, _) if id == self.id => round,
                other => {
                    *state = other;
                    return Poll::Ready(());
                }
            }
        };
        let done = round.as_mut().poll(cx).is_ready();
        let mut state = line.driver().lock();
        let taken = matches!(*state, State::Polling(_, true));
        if done {
            // What has come meanwhile must not keep this caller busy.
            if line.has_work() {
                *state = State::Task;
                spawn(line, None);
            } else {
                *state = State::Resting;
            }
            return Poll::Ready(());
        }
        if taken {
            *state = State::Task;
            spawn(line, Some(round));
            return Poll::Ready(());
        }
        *state = State::Inline(self.id, round, Some(cx.waker().clone()));
        Poll::Pending
    }
}

impl<R: Rounds> Drop for Inline<R> {
    fn drop(&mut self) {
        let mut state = self.line.driver().lock();
        if matches!(&*state, State::Inline(id, ..) if *id == self.id) {
            hand_over(&self.line, &mut state);
        }
    }
}
