//! Random schedules of calls over several clients and tasks, against a counter: every history that was
//! observed is one that a single counter could have produced (it is linearizable), and at the end every
//! permit is where the answers say.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::support::server::RedisServer;
use crate::support::waiters::until;
use futures::future::join_all;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence, TestRunner};
use redisson_semaphore::{Client, RSemaphore};
use tokio::time::{Instant, timeout};

const CLIENTS: usize = 3;
const CASES: u32 = 300;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    TryAcquire(u32),
    /// Waits for so many milliseconds.
    AcquireFor(u32, u64),
    /// Dropped after so many milliseconds, if it has not been served.
    Cancelled(u32, u64),
    Release(u32),
    Add(i32),
    Drain,
    Available,
}

/// What a task of one client does.
#[derive(Debug, Clone)]
struct Task {
    client: usize,
    calls: Vec<Call>,
}

/// A call as it was observed.
#[derive(Debug, Clone, Copy)]
struct Observed {
    call: Call,
    /// `None`: cancelled, it may or may not have happened.
    answer: Option<i64>,
    began: Instant,
    ended: Instant,
}

fn calls(lowest_delta: i32) -> impl Strategy<Value = Call> {
    prop_oneof![
        3 => (1..4u32).prop_map(Call::TryAcquire),
        3 => (1..4u32, 1..25u64).prop_map(|(permits, wait)| Call::AcquireFor(permits, wait)),
        2 => (1..4u32, 0..6u64).prop_map(|(permits, wait)| Call::Cancelled(permits, wait)),
        4 => (1..3u32).prop_map(Call::Release),
        1 => (lowest_delta..3).prop_map(Call::Add),
        1 => Just(Call::Drain),
        1 => Just(Call::Available),
    ]
}

fn tasks(lowest_delta: i32) -> impl Strategy<Value = Vec<Task>> {
    let task = (0..CLIENTS, vec(calls(lowest_delta), 1..4))
        .prop_map(|(client, calls)| Task { client, calls });
    vec(task, 2..6)
}

async fn carry_out(semaphore: RSemaphore, calls: Vec<Call>) -> Vec<Observed> {
    let mut history = Vec::new();
    for call in calls {
        let began = Instant::now();
        let answer = match call {
            Call::TryAcquire(permits) => Some(semaphore.try_acquire(permits).await.unwrap().into()),
            Call::AcquireFor(permits, wait) => {
                let wait = Duration::from_millis(wait);
                Some(
                    semaphore
                        .try_acquire_for(permits, wait)
                        .await
                        .unwrap()
                        .into(),
                )
            }
            Call::Cancelled(permits, wait) => {
                let waiting = semaphore.acquire(permits);
                let served = timeout(Duration::from_millis(wait), waiting).await;
                served.ok().map(|served| served.map(|()| 1).unwrap())
            }
            Call::Release(permits) => Some(semaphore.release(permits).await.map(|()| 0).unwrap()),
            Call::Add(delta) => Some(semaphore.add_permits(delta).await.map(|()| 0).unwrap()),
            Call::Drain => Some(semaphore.drain_permits().await.unwrap()),
            Call::Available => Some(semaphore.available_permits().await.unwrap()),
        };
        history.push(Observed {
            call,
            answer,
            began,
            ended: Instant::now(),
        });
    }
    history
}

/// What the counter is if `observed` happens to it now, or `None` if it can't.
fn step(counter: i64, observed: &Observed) -> Option<i64> {
    match (observed.call, observed.answer) {
        (
            Call::TryAcquire(permits) | Call::AcquireFor(permits, _) | Call::Cancelled(permits, _),
            answer,
        ) => {
            let permits = i64::from(permits);
            match answer {
                Some(0) => (counter < permits).then_some(counter),
                _ => (counter >= permits).then(|| counter - permits),
            }
        }
        (Call::Release(permits), _) => Some(counter + i64::from(permits)),
        (Call::Add(delta), _) => Some(counter + i64::from(delta)),
        (Call::Drain, answer) => (answer == Some(counter)).then_some(0),
        (Call::Available, answer) => (answer == Some(counter)).then_some(counter),
    }
}

/// Looks for an order of `history` that a single counter allows.
struct Search<'a> {
    history: &'a [Observed],
    seen: HashSet<(u64, u64, i64)>,
}

impl Search<'_> {
    /// `done`: bits of the calls that have happened; `back`: of cancelled ones, given back as well.
    fn order(&mut self, done: u64, back: u64, counter: i64) -> bool {
        let open = |index: usize| done & (1 << index) == 0;
        let must = |index: usize| self.history[index].answer.is_some();
        if (0..self.history.len()).all(|index| !open(index) || !must(index)) {
            return true;
        }
        if !self.seen.insert((done, back, counter)) {
            return false;
        }
        let first_end = (0..self.history.len())
            .filter(|index| open(*index) && must(*index))
            .map(|index| self.history[index].ended)
            .min();
        for (index, observed) in self.history.iter().enumerate() {
            let bit = 1 << index;
            if done & bit == 0 {
                // Not before a call that had ended when it began.
                let too_late = first_end.is_some_and(|end| end < observed.began);
                if !too_late
                    && let Some(next) = step(counter, observed)
                    && self.order(done | bit, back, next)
                {
                    return true;
                }
            } else if observed.answer.is_none() && back & bit == 0 {
                let Call::Cancelled(permits, _) = observed.call else {
                    unreachable!("every other call has an answer");
                };
                if self.order(done, back | bit, counter + i64::from(permits)) {
                    return true;
                }
            }
        }
        false
    }
}

/// What must be left when the permits of cancelled calls are back.
fn left(initial: i64, history: &[Observed]) -> i64 {
    history.iter().fold(initial, |sum, observed| {
        match (observed.call, observed.answer) {
            (
                Call::TryAcquire(permits)
                | Call::AcquireFor(permits, _)
                | Call::Cancelled(permits, _),
                Some(1),
            ) => sum - i64::from(permits),
            (Call::Release(permits), _) => sum + i64::from(permits),
            (Call::Add(delta), _) => sum + i64::from(delta),
            (Call::Drain, Some(drained)) => sum - drained,
            _ => sum,
        }
    })
}

/// A waiter's entry may be granted permits that nobody takes: its caller has been served within the process, or its time was over. They
/// go back when the client hears of them.
fn ghosts(history: &[Observed]) -> Vec<Observed> {
    let answered = |observed: &&Observed| observed.answer.is_some();
    let ghost = |observed: &Observed| match observed.call {
        Call::AcquireFor(permits, wait) | Call::Cancelled(permits, wait) => Some(Observed {
            call: Call::Cancelled(permits, wait),
            answer: None,
            ..*observed
        }),
        _ => None,
    };
    history.iter().filter(answered).filter_map(ghost).collect()
}

/// Runs random schedules; `window` is the hand-over within a process.
fn check(window: Duration, lowest_delta: i32) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (_server, clients) = runtime.block_on(async {
        let server = RedisServer::start().await;
        let connect = (0..CLIENTS).map(|_| {
            let client = Client::builder(server.url()).local_hand_over(window);
            async move {
                client
                    .connect()
                    .await
                    .expect("the server has just been started")
            }
        });
        let clients = join_all(connect).await;
        (server, clients)
    });
    let clients = Arc::new(clients);
    let mut runner = TestRunner::new(Config {
        cases: CASES,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..Config::default()
    });
    let number = std::cell::Cell::new(0);
    let outcome = runner.run(&(0..5u32, tasks(lowest_delta)), |(initial, tasks)| {
        number.set(number.get() + 1);
        let name = format!("model-{}", number.get());
        let clients = Arc::clone(&clients);
        let history: Vec<Observed> = runtime.block_on(async move {
            let semaphore = |client: usize| clients[client].semaphore(&name);
            assert!(semaphore(0).try_set_permits(initial).await.unwrap());
            let running: Vec<_> = tasks
                .into_iter()
                .map(|task| tokio::spawn(carry_out(semaphore(task.client), task.calls)))
                .collect();
            let mut history = Vec::new();
            for task in running {
                history.extend(task.await.expect("no call fails"));
            }
            let expected = left(initial.into(), &history);
            let what = format!("{expected} permits are left of {history:?}");
            until(&what, Duration::from_secs(10), async || {
                semaphore(0).available_permits().await.unwrap() == expected
            })
            .await;
            history.extend(ghosts(&history));
            history
        });
        let mut search = Search {
            history: &history,
            seen: HashSet::new(),
        };
        prop_assert!(
            search.order(0, 0, initial.into()),
            "from {initial}: {history:#?}"
        );
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn histories_are_linearizable() {
    check(Duration::ZERO, -3);
}

#[test]
fn histories_with_hand_over_are_linearizable() {
    // Without calls that make the counter negative: those are noticed a window later.
    check(Duration::from_millis(5), 0);
}

/// The search itself: what it has to refuse.
#[test]
fn the_model_refuses_impossible_histories() {
    let start = Instant::now();
    let at = |call, answer, began: u64, ended: u64| Observed {
        call,
        answer: Some(answer),
        began: start + Duration::from_millis(began),
        ended: start + Duration::from_millis(ended),
    };
    let possible = |initial: i64, history: &[Observed]| {
        let seen = HashSet::new();
        Search { history, seen }.order(0, 0, initial)
    };
    let release = at(Call::Release(1), 0, 10, 20);
    assert!(possible(0, &[release, at(Call::TryAcquire(1), 1, 15, 30)]));
    assert!(!possible(0, &[release, at(Call::TryAcquire(1), 1, 0, 5)]));
    assert!(!possible(0, &[release, at(Call::TryAcquire(1), 0, 25, 30)]));
    assert!(!possible(
        1,
        &[
            at(Call::TryAcquire(1), 1, 0, 5),
            at(Call::TryAcquire(1), 1, 0, 5)
        ]
    ));
    assert!(!possible(2, &[at(Call::Drain, 1, 0, 5)]));
}
