//! A waker may run anything, what it wakes for included: no mutex is held meanwhile.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures::FutureExt;

use crate::memory;
use crate::{LeasedSemaphore, Lock, Semaphore as _};

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Asks the object something as soon as it is woken, and when it is dropped.
struct Asking<F: Fn()> {
    ask: F,
    woken: AtomicUsize,
}

impl<F: Fn() + Send + Sync> Wake for Asking<F> {
    fn wake(self: Arc<Self>) {
        (self.ask)();
        self.woken.fetch_add(1, Ordering::SeqCst);
    }
}

impl<F: Fn()> Drop for Asking<F> {
    fn drop(&mut self) {
        (self.ask)();
    }
}

/// Two calls wait; the first is dropped, and `free` is what the second one waits for.
fn woken<F: Fn() + Clone + Send + Sync + 'static>(
    waiting: impl Fn() -> Task + Send + 'static,
    free: impl FnOnce() + Send + 'static,
    ask: F,
) {
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let _runtime = runtime.enter();
        let asking = || {
            Arc::new(Asking {
                ask: ask.clone(),
                woken: AtomicUsize::new(0),
            })
        };
        let (one, two) = (asking(), asking());
        let poll = |task: &mut Task, waker: &Arc<Asking<F>>| {
            let waker = Waker::from(Arc::clone(waker));
            task.as_mut().poll(&mut Context::from_waker(&waker))
        };
        let (mut first, mut second) = (waiting(), waiting());
        assert!(poll(&mut first, &one).is_pending());
        assert!(poll(&mut second, &two).is_pending());
        // With another waker from now on.
        assert!(poll(&mut first, &two).is_pending());
        drop(one);
        drop(first);
        free();
        assert!(two.woken.load(Ordering::SeqCst) > 0, "nobody was woken");
        assert_eq!(poll(&mut second, &two), Poll::Ready(()));
        drop(second);
        done.send(()).unwrap();
    });
    let ended = ended.recv_timeout(Duration::from_secs(20));
    ended.expect("a waker that asks the object hangs");
}

#[test]
fn of_those_who_wait_for_a_semaphore() {
    let semaphore = memory::Semaphore::with_permits("seats", 0);
    let (waiting, asked) = (semaphore.clone(), semaphore.clone());
    woken(
        move || {
            let semaphore = waiting.clone();
            Box::pin(async move { semaphore.acquire(1).await.unwrap() })
        },
        move || crate::api::Semaphore::release_detached(&semaphore, 1),
        move || {
            drop(
                asked
                    .available_permits()
                    .now_or_never()
                    .expect("it answers at once"),
            )
        },
    );
}

#[test]
fn of_those_who_wait_for_a_lock() {
    let held = memory::Lock::new("door");
    let guard = held.try_guard().now_or_never().unwrap().unwrap();
    let (waiting, asked) = (held.with_owner(2), held.with_owner(3));
    woken(
        move || {
            let lock = waiting.clone();
            Box::pin(async move { lock.lock().await.unwrap() })
        },
        move || drop(guard),
        move || {
            drop(
                asked
                    .is_locked()
                    .now_or_never()
                    .expect("it answers at once"),
            )
        },
    );
}

#[test]
fn of_those_who_wait_for_a_permit_with_an_id() {
    let jobs = memory::LeasedSemaphore::new("jobs", 1, None);
    let held = jobs.try_acquire().now_or_never().unwrap().unwrap().unwrap();
    let (waiting, asked) = (jobs.clone(), jobs.clone());
    woken(
        move || {
            let jobs = waiting.clone();
            Box::pin(async move { drop(jobs.acquire().await.unwrap()) })
        },
        move || jobs.release_detached(held.id()),
        move || drop(asked.holders().now_or_never().expect("it answers at once")),
    );
}

#[test]
fn of_those_who_wait_for_a_loss() {
    let lock = memory::Lock::new("door");
    let (owner, asked) = (lock.clone(), lock.with_owner(2));
    assert!(owner.try_lock().now_or_never().unwrap().unwrap());
    let lease = owner.lease();
    woken(
        move || {
            let lease = lease.clone();
            Box::pin(async move { lease.lost().await })
        },
        move || assert!(lock.force_unlock().now_or_never().unwrap().unwrap()),
        move || {
            drop(
                asked
                    .is_locked()
                    .now_or_never()
                    .expect("it answers at once"),
            )
        },
    );
}
