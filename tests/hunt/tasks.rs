//! The tasks of simulated processes.
//!
//! A simulation has one thread. It finds faults between threads all the same: another task of the process may run wherever the crate has just
//! unlocked something. To that task it looks as if the first one were held up there.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::task::{Context, Poll, Wake, Waker};

use redisson_semaphore::outside::Task;

use crate::process::Process;

/// At most this many tasks are interrupted at once.
const DEEPEST: u32 = 3;

thread_local! {
    /// The process whose task is being polled.
    static PROCESS: RefCell<Option<Arc<Process>>> = const { RefCell::new(None) };
    /// All tasks of all processes.
    static TASKS: RefCell<Vec<Weak<dyn Beside>>> = const { RefCell::new(Vec::new()) };
    /// How many tasks are interrupted.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Prepares for a new history.
pub fn clear() {
    DEPTH.set(0);
    PROCESS.set(None);
    TASKS.take();
}

/// Runs `task` as a part of the process whose task is being polled, if there is one.
pub fn inherit(task: Task) -> Task {
    match PROCESS.with_borrow(Clone::clone) {
        Some(process) => Box::pin(within(process, task)),
        None => task,
    }
}

/// The crate has unlocked something: another task of this process may run in between.
pub fn interrupt() {
    if DEPTH.get() == DEEPEST || std::thread::panicking() {
        return;
    }
    if let Some(process) = PROCESS.with_borrow(Clone::clone)
        && process.interrupts()
        && let Some(task) = one_beside(&process)
    {
        DEPTH.set(DEPTH.get() + 1);
        task.run();
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Returns one of the tasks of `process` that are ready to run.
fn one_beside(process: &Arc<Process>) -> Option<Arc<dyn Beside>> {
    let mut ready = Vec::new();
    TASKS.with_borrow_mut(|tasks| {
        tasks.retain(|task| match task.upgrade() {
            None => false,
            Some(task) => {
                if task.is_ready(process) {
                    ready.push(task);
                }
                true
            }
        });
    });
    fastrand::choice(ready)
}

/// Runs `task` as a part of `process`, together with all tasks that the crate starts for it.
pub async fn within<T: Send + 'static>(
    process: Arc<Process>,
    task: impl Future<Output = T> + Send + 'static,
) -> T {
    let task = Arc::new(Part {
        process,
        course: Mutex::new(Course::Runs(Box::pin(task))),
        woken: AtomicBool::new(true),
        outer: Mutex::new(Waker::noop().clone()),
    });
    let beside: Weak<dyn Beside> = Arc::downgrade(&task) as _;
    TASKS.with_borrow_mut(|tasks| tasks.push(beside));
    let owned = Owned(task);
    std::future::poll_fn(|cx| owned.0.poll_outer(cx)).await
}

/// A task that may run in between.
trait Beside: Send + Sync {
    fn is_ready(&self, process: &Arc<Process>) -> bool;

    fn run(self: Arc<Self>);
}

struct Part<T> {
    process: Arc<Process>,
    /// Locked while the task is polled.
    course: Mutex<Course<T>>,
    /// The task has not been polled since it was woken.
    woken: AtomicBool,
    /// Wakes the runtime's task, which waits for this one.
    outer: Mutex<Waker>,
}

enum Course<T> {
    Runs(Pin<Box<dyn Future<Output = T> + Send>>),
    Ended(T),
    /// No task waits for its result any more.
    Gone,
}

impl<T: Send + 'static> Part<T> {
    fn poll_outer(self: &Arc<Self>, cx: &mut Context<'_>) -> Poll<T> {
        *unpoisoned(self.outer.lock()) = cx.waker().clone();
        if self.process.poll_runs(cx).is_pending() {
            return Poll::Pending;
        }
        self.poll_now();
        let mut course = unpoisoned(self.course.lock());
        match std::mem::replace(&mut *course, Course::Gone) {
            Course::Ended(value) => Poll::Ready(value),
            other => {
                *course = other;
                Poll::Pending
            }
        }
    }

    /// Polls the task if it has been woken, and is not being polled.
    fn poll_now(self: &Arc<Self>) {
        let mut course = match self.course.try_lock() {
            Ok(course) => course,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if let Course::Runs(task) = &mut *course
            && self.woken.swap(false, Ordering::SeqCst)
        {
            let waker = Waker::from(Arc::clone(self));
            let former = PROCESS.replace(Some(Arc::clone(&self.process)));
            let polled = task.as_mut().poll(&mut Context::from_waker(&waker));
            if let Poll::Ready(value) = polled {
                *course = Course::Ended(value);
                waker.wake();
            }
            PROCESS.set(former);
        }
    }
}

impl<T: Send + 'static> Wake for Part<T> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        let outer = unpoisoned(self.outer.lock()).clone();
        outer.wake();
    }
}

impl<T: Send + 'static> Beside for Part<T> {
    fn is_ready(&self, process: &Arc<Process>) -> bool {
        Arc::ptr_eq(&self.process, process)
            && self.woken.load(Ordering::SeqCst)
            && self
                .course
                .try_lock()
                .is_ok_and(|course| matches!(*course, Course::Runs(_)))
    }

    fn run(self: Arc<Self>) {
        self.poll_now();
    }
}

/// The runtime's share of a part. The part's task ends when this is dropped.
struct Owned<T>(Arc<Part<T>>);

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        let course = std::mem::replace(&mut *unpoisoned(self.0.course.lock()), Course::Gone);
        drop(course);
    }
}

fn unpoisoned<'a, T>(
    locked: Result<MutexGuard<'a, T>, PoisonError<MutexGuard<'a, T>>>,
) -> MutexGuard<'a, T> {
    locked.unwrap_or_else(PoisonError::into_inner)
}
