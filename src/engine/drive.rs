//! The caller itself carries out the rounds of its object while it is alone; a task does as soon as it is not.
//!
//! A caller whose object is at rest polls the round as part of its own future: no task, no hop.
//! A future can be left unpolled, though, or be dropped, and must then not hold anyone up. So the round
//! does not belong to the caller but lies in the object: the next one (another caller, a message,
//! a timer), and the caller's own `Drop`, move it to a task, which goes on until there is no more to do.
//!
//! A round that panics ends the calls that it would have answered, too; the next one is carried out all the same.
//!
//! Wakers are called and dropped, and tasks are spawned, when the driver's lock is free: they may run anything.

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

    /// The runtime went away in the middle: queued calls will not be carried out.
    fn abandon(&self);

    /// The object's driver.
    fn driver(&self) -> &Driver;

    /// Runs `task` in the background.
    fn spawn(&self, task: Round);
}

/// The state of an object's work.
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
    Polling(bool),
    /// A task carries rounds out.
    Task,
}

impl Driver {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// Sees to it that the work queued just now is carried out, by the caller if it is the only one.
///
/// The caller has to poll the returned future, if there is one, before the one that it waits for. It ends when
/// the round has, or has been taken over.
pub(crate) fn drive<R: Rounds>(object: &Arc<R>) -> Option<Inline<R>> {
    let mut state = object.driver().lock();
    if !matches!(*state, State::Resting) {
        let handed_over = hand_over(&mut state);
        drop(state);
        take_over(object, handed_over);
        return None;
    }
    let id = fastrand::u64(..);
    *state = State::Inline(id, Arc::clone(object).round(), None);
    Some(Inline {
        object: Arc::clone(object),
        id,
    })
}

/// Sees to it that the work queued just now is carried out, by a task.
pub(crate) fn kick<R: Rounds>(object: &Arc<R>) {
    let mut state = object.driver().lock();
    if matches!(*state, State::Resting) {
        *state = State::Task;
        drop(state);
        spawn(object, None);
    } else {
        let handed_over = hand_over(&mut state);
        drop(state);
        take_over(object, handed_over);
    }
}

/// Lets a caller that carries a round out wait for its answer only: that may have come by another way.
pub(crate) fn let_caller_go<R: Rounds>(object: &Arc<R>) {
    let handed_over = hand_over(&mut object.driver().lock());
    take_over(object, handed_over);
}

/// A round that a caller has begun, and how to reach the caller.
type HandedOver = (Round, Option<Waker>);

/// The round that a task has to take over from a caller, if there is one; a caller that is polling just now passes it on itself.
#[must_use]
fn hand_over(state: &mut State) -> Option<HandedOver> {
    match std::mem::replace(state, State::Task) {
        State::Inline(_, round, caller) => return Some((round, caller)),
        State::Polling(_) => *state = State::Polling(true),
        other => *state = other,
    }
    None
}

fn take_over<R: Rounds>(object: &Arc<R>, handed_over: Option<HandedOver>) {
    if let Some((round, caller)) = handed_over {
        spawn(object, Some(round));
        // From now on the caller waits for its answer only.
        if let Some(caller) = caller {
            caller.wake();
        }
    }
}

fn spawn<R: Rounds>(object: &Arc<R>, round: Option<Round>) {
    let unfinished = Unfinished {
        object: Arc::clone(object),
        done: false,
        began: false,
    };
    object.spawn(Box::pin(task(unfinished, round)));
}

async fn task<R: Rounds>(mut unfinished: Unfinished<R>, round: Option<Round>) {
    unfinished.began = true;
    let object = Arc::clone(&unfinished.object);
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
            let mut state = object.driver().lock();
            if !object.has_work() {
                *state = State::Resting;
                unfinished.done = true;
                return;
            }
        }
        round = Some(Arc::clone(&object).round());
    }
}

/// Tells the object when its task is dropped before its work is done: the runtime is shutting down. After a panic
/// another task goes on.
struct Unfinished<R: Rounds> {
    object: Arc<R>,
    done: bool,
    began: bool,
}

impl<R: Rounds> Drop for Unfinished<R> {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        // One that has not even begun was dropped by a runtime that is shutting down.
        if self.began && std::thread::panicking() {
            spawn(&self.object, None);
        } else {
            self.object.abandon();
        }
    }
}

/// A round that the caller carries out itself, until someone else comes.
pub(crate) struct Inline<R: Rounds> {
    object: Arc<R>,
    id: u64,
}

impl<R: Rounds> Future for Inline<R> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let object = &self.object;
        let (mut round, former) = {
            let mut state = object.driver().lock();
            match std::mem::replace(&mut *state, State::Polling(false)) {
                State::Inline(id, round, caller) if id == self.id => (round, caller),
                other => {
                    *state = other;
                    return Poll::Ready(());
                }
            }
        };
        drop(former);
        let panicking = Panicking(object);
        let done = round.as_mut().poll(cx).is_ready();
        std::mem::forget(panicking);
        // The round is dropped, and the waker made, while the lock is free.
        let pending = (!done).then(|| (round, cx.waker().clone()));
        let mut state = object.driver().lock();
        let taken = matches!(*state, State::Polling(true));
        let Some((round, waker)) = pending else {
            // Calls that came meanwhile must not keep this caller busy.
            let more = object.has_work();
            *state = if more { State::Task } else { State::Resting };
            drop(state);
            if more {
                spawn(object, None);
            }
            return Poll::Ready(());
        };
        if taken {
            *state = State::Task;
            drop(state);
            spawn(object, Some(round));
            return Poll::Ready(());
        }
        *state = State::Inline(self.id, round, Some(waker));
        Poll::Pending
    }
}

/// Dropped when a round panics while its caller polls it: a task goes on with what comes after it.
struct Panicking<'a, R: Rounds>(&'a Arc<R>);

impl<R: Rounds> Drop for Panicking<'_, R> {
    fn drop(&mut self) {
        *self.0.driver().lock() = State::Task;
        spawn(self.0, None);
    }
}

impl<R: Rounds> Drop for Inline<R> {
    fn drop(&mut self) {
        let mut state = self.object.driver().lock();
        let own = matches!(&*state, State::Inline(id, ..) if *id == self.id);
        let handed_over = own.then(|| hand_over(&mut state)).flatten();
        drop(state);
        take_over(&self.object, handed_over);
    }
}
