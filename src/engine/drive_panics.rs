//! Rounds that panic, in a caller or in a task: what has been queued besides is carried out all the same.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::drive::{self, Driver, Round, Rounds};
use super::sync::Mutex;

/// An object whose rounds answer one call each; a call without a reply makes its round panic.
#[derive(Default)]
struct Queue {
    driver: Driver,
    calls: Mutex<VecDeque<Option<oneshot::Sender<()>>>>,
    abandoned: Mutex<bool>,
}

impl Rounds for Queue {
    fn round(self: Arc<Self>) -> Round {
        Box::pin(async move {
            let call = self.calls.lock().pop_front();
            tokio::task::yield_now().await;
            match call {
                Some(Some(reply)) => drop(reply.send(())),
                Some(None) => panic!("as the test wants it"),
                None => {}
            }
        })
    }

    fn has_work(&self) -> bool {
        !self.calls.lock().is_empty()
    }

    fn abandon(&self) {
        *self.abandoned.lock() = true;
    }

    fn driver(&self) -> &Driver {
        &self.driver
    }

    fn spawn(&self, task: Round) {
        tokio::spawn(task);
    }
}

impl Queue {
    fn ask(&self) -> oneshot::Receiver<()> {
        let (reply, answer) = oneshot::channel();
        self.calls.lock().push_back(Some(reply));
        answer
    }

    fn ask_for_a_panic(&self) {
        self.calls.lock().push_back(None);
    }
}

async fn answered(answer: oneshot::Receiver<()>) {
    let answer = timeout(Duration::from_secs(20), answer).await;
    answer.expect("nobody goes on").expect("answered");
}

#[tokio::test]
async fn a_round_that_panics_in_its_caller() {
    let queue = Arc::new(Queue::default());
    queue.ask_for_a_panic();
    let inline = drive::drive(&queue).expect("the object is at rest");
    let behind = queue.ask();
    let panicked = std::panic::AssertUnwindSafe(inline).catch_unwind().await;
    assert!(panicked.is_err());
    answered(behind).await;
    assert!(!*queue.abandoned.lock());
}

#[tokio::test]
async fn a_round_that_panics_in_a_task() {
    let queue = Arc::new(Queue::default());
    let before = queue.ask();
    queue.ask_for_a_panic();
    queue.ask_for_a_panic();
    let behind = queue.ask();
    drive::kick(&queue);
    answered(before).await;
    answered(behind).await;
    let later = queue.ask();
    drive::kick(&queue);
    answered(later).await;
    assert!(!*queue.abandoned.lock());
}

#[test]
fn a_runtime_that_ends_in_the_middle() {
    let queue = Arc::new(Queue::default());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let answer = queue.ask();
    runtime.block_on(async { drive::kick(&queue) });
    drop(runtime);
    assert!(*queue.abandoned.lock());
    drop(queue);
    assert!(answer.blocking_recv().is_err());
}
