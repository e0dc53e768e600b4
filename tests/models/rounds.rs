//! The driver of rounds (`src/engine/drive.rs`) under every kind of schedule: callers that are dropped, callers that are
//! left unpolled, and work that arrives at any moment. No queued call stays behind, and there is never more than one
//! round at a time.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;

use futures::channel::oneshot;
use shuttle::future::{block_on, spawn};

/// The primitives that the file under test synchronises with, in versions that the scheduler of the model sees.
pub(crate) mod engine {
    pub(crate) mod sync {
        use std::sync::PoisonError;

        pub(crate) use shuttle::future::yield_now;
        pub(crate) use shuttle::sync::MutexGuard;

        #[derive(Default)]
        pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

        impl<T> Mutex<T> {
            pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
                self.0.lock().unwrap_or_else(PoisonError::into_inner)
            }
        }
    }
}

#[path = "../../src/engine/drive.rs"]
mod drive;

use drive::{Driver, Inline, Round, Rounds, drive, kick, let_caller_go};
use engine::sync::{Mutex, yield_now};

/// A queue whose rounds take some polls, and answer the calls that were queued when they began.
#[derive(Default)]
struct Queue {
    driver: Driver,
    queued: Mutex<Vec<oneshot::Sender<()>>>,
    in_round: AtomicBool,
    rounds: AtomicUsize,
}

impl Rounds for Queue {
    fn round(self: Arc<Self>) -> Round {
        Box::pin(async move {
            let taken = std::mem::take(&mut *self.queued.lock());
            let before = self.in_round.swap(true, Ordering::SeqCst);
            assert!(!before, "two rounds at a time");
            yield_now().await;
            yield_now().await;
            self.in_round.store(false, Ordering::SeqCst);
            self.rounds.fetch_add(1, Ordering::SeqCst);
            for caller in taken {
                let _ = caller.send(());
            }
        })
    }

    fn has_work(&self) -> bool {
        !self.queued.lock().is_empty()
    }

    fn abandon(&self) {
        // Only tasks that are left over when the model ends come here.
    }

    fn driver(&self) -> &Driver {
        &self.driver
    }

    fn spawn(&self, task: Round) {
        // The model unwinds the tasks that are left over when it ends.
        if !std::thread::panicking() {
            spawn(task);
        }
    }
}

impl Queue {
    fn ask(self: &Arc<Self>) -> (Option<Inline<Queue>>, oneshot::Receiver<()>) {
        let (reply, answer) = oneshot::channel();
        self.queued.lock().push(reply);
        (drive(self), answer)
    }

    async fn call(self: &Arc<Self>) {
        let (mut inline, mut answer) = self.ask();
        std::future::poll_fn(|cx| poll_both(&mut inline, &mut answer, cx)).await;
    }
}

fn poll_both(
    inline: &mut Option<Inline<Queue>>,
    answer: &mut oneshot::Receiver<()>,
    cx: &mut std::task::Context<'_>,
) -> Poll<()> {
    if let Some(round) = inline {
        std::task::ready!(Pin::new(round).poll(cx));
        *inline = None;
    }
    Pin::new(answer)
        .poll(cx)
        .map(|answered| answered.expect("every call is answered"))
}

/// Polls both futures `times` times. Returns whether the answer has come.
async fn poll_times(
    inline: &mut Option<Inline<Queue>>,
    answer: &mut oneshot::Receiver<()>,
    times: usize,
) -> bool {
    let mut left = times;
    std::future::poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(false);
        }
        if poll_both(inline, answer, cx).is_ready() {
            return Poll::Ready(true);
        }
        left -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

const SCHEDULES: usize = 1_000;

#[test]
fn every_caller_is_answered() {
    shuttle::check_random(
        || {
            let queue = Arc::new(Queue::default());
            let callers: Vec<_> = (0..3)
                .map(|_| {
                    let queue = Arc::clone(&queue);
                    spawn(async move {
                        queue.call().await;
                        queue.call().await;
                    })
                })
                .collect();
            block_on(async {
                for caller in callers {
                    caller.await.unwrap();
                }
            });
            assert!(!queue.has_work());
            assert!(queue.rounds.load(Ordering::SeqCst) <= 6);
        },
        SCHEDULES,
    );
}

#[derive(Clone, Copy)]
enum Move {
    /// A caller is dropped; its call is carried out all the same.
    Drops,
    /// A caller is kept, and not polled.
    LeavesUnpolled,
    /// Work arrives without a caller.
    Kicks,
    /// The caller that carries the rounds out is asked to let go, at two moments.
    LetsGo,
}

#[test]
fn nothing_stays_behind_after_any_move() {
    let check = |made, polls, others| {
        shuttle::check_random(move || carried_out(made, polls, others), SCHEDULES);
    };
    for polls in 0..4 {
        check(Move::Drops, polls, 0);
        check(Move::Drops, polls, 1);
        check(Move::LeavesUnpolled, polls, 1);
    }
    check(Move::Kicks, 0, 1);
    check(Move::LetsGo, 0, 2);
}

/// Makes a move beside other callers, after `polls` polls if a caller makes it. Asserts that all calls are answered.
fn carried_out(made: Move, polls: usize, others: usize) {
    let queue = Arc::new(Queue::default());
    let others = (0..others).map(|_| {
        let queue = Arc::clone(&queue);
        spawn(async move { queue.call().await })
    });
    let mut others: Vec<_> = others.collect();
    block_on(async {
        match made {
            Move::Drops | Move::LeavesUnpolled => {
                let (mut inline, mut answer) = queue.ask();
                let answered = poll_times(&mut inline, &mut answer, polls).await;
                if let Move::Drops = made {
                    inline = None;
                } else {
                    for other in others.drain(..) {
                        other.await.unwrap();
                    }
                    queue.call().await;
                }
                if !answered {
                    answer.await.expect("carried out by somebody else");
                }
                drop(inline);
            }
            Move::Kicks => {
                let (reply, answer) = oneshot::channel();
                queue.queued.lock().push(reply);
                kick(&queue);
                answer.await.expect("carried out by a task");
            }
            Move::LetsGo => {
                let_caller_go(&queue);
                yield_now().await;
                let_caller_go(&queue);
            }
        }
        for other in others {
            other.await.unwrap();
        }
    });
    assert!(!queue.has_work());
}
