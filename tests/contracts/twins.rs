//! The implementations in memory and in Redis, given the same random sequence of calls: both give the same answers, and
//! serve the same callers.

use std::sync::Arc;
use std::time::Duration;

use crate::contract::call::start;
use crate::support::clients::{LIMIT, builder, connect};
use crate::support::server::RedisServer;
use crate::support::waiters::until;
use redisson_semaphore::{
    Client, Held, Hold, LeasedPermit, LeasedSemaphore, Lock, LockGuard, MAX_PERMITS, Permit,
    RemainingTtl, Result, Semaphore, memory,
};
use tokio::task::{JoinHandle, yield_now};

/// How many sequences there are, and how many calls each has.
const SEQUENCES: u64 = 16;
const CALLS: usize = 120;
/// The most callers that wait at a time.
const MOST_WAITING: usize = 6;
const LONG: Duration = Duration::from_secs(3600);

/// The same object twice: in memory, and in Redis.
struct Twins<T> {
    memory: T,
    redis: T,
}

/// A call that waits, on both objects.
struct Waiting<T> {
    what: String,
    amount: u32,
    calls: Twins<JoinHandle<T>>,
}

/// Lets the tasks of this process do all they can. All tasks run on this thread.
async fn settle() {
    for _ in 0..50 {
        yield_now().await;
    }
}

/// Takes out the calls that have been answered in memory, and waits for their answers in Redis.
async fn answered<T>(waiting: &mut Vec<Waiting<T>>, history: &[String]) -> Vec<(T, T)> {
    settle().await;
    let mut answers = Vec::new();
    let (done, left) = std::mem::take(waiting)
        .into_iter()
        .partition(|waiting: &Waiting<T>| waiting.calls.memory.is_finished());
    *waiting = left;
    for Waiting { what, calls, .. } in done {
        let what = format!("{what} is served in Redis, as it is in memory: {history:#?}");
        until(&what, LIMIT, async || calls.redis.is_finished()).await;
        answers.push((calls.memory.await.unwrap(), calls.redis.await.unwrap()));
    }
    answers
}

fn nobody_else_is_served<T>(waiting: &[Waiting<T>], history: &[String]) {
    for Waiting { what, calls, .. } in waiting {
        assert!(
            !calls.redis.is_finished(),
            "{what} is served in Redis only: {history:#?}"
        );
    }
}

/// Makes the same call on both objects. The answers must be the same, as text.
macro_rules! both {
    ($history:ident, $twins:expr, |$it:ident| $call:expr) => {{
        let in_memory = {
            let $it = &$twins.memory;
            $call
        };
        let in_redis = {
            let $it = &$twins.redis;
            $call
        };
        let (one, two) = (format!("{in_memory:?}"), format!("{in_redis:?}"));
        $history.push(format!("{} -> {one}", stringify!($call)));
        assert_eq!(one, two, "memory and Redis: {:#?}", $history);
        drop((in_memory, in_redis));
    }};
}

/// Starts a call that waits, on both objects.
macro_rules! wait {
    ($history:ident, $waiting:ident, $twins:expr, $amount:expr, |$it:ident| $call:expr) => {{
        let what = format!("waiting call {}: {}", $history.len(), stringify!($call));
        $history.push(what.clone());
        let $it = Arc::clone(&$twins.memory);
        let memory = start(async move { $call }).await;
        let $it = Arc::clone(&$twins.redis);
        let redis = start(async move { $call }).await;
        $waiting.push(Waiting {
            what,
            amount: $amount,
            calls: Twins { memory, redis },
        });
    }};
}

/// Cancels one of the waiting calls.
async fn cancel_one<T>(
    waiting: &mut Vec<Waiting<T>>,
    random: &mut fastrand::Rng,
    history: &mut Vec<String>,
) {
    if waiting.is_empty() {
        return;
    }
    let Waiting { what, calls, .. } = waiting.remove(random.usize(..waiting.len()));
    history.push(format!("cancelled: {what}"));
    for call in [calls.memory, calls.redis] {
        call.abort();
        let ended = call.await;
        assert!(ended.is_err(), "{what} was answered before: {history:#?}");
    }
}

fn take_any<T>(random: &mut fastrand::Rng, from: &mut Vec<T>) -> Option<T> {
    (!from.is_empty()).then(|| from.swap_remove(random.usize(..from.len())))
}

async fn semaphores(client: &Client, seed: u64, first: Option<u32>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let name = format!("semaphore-{seed}");
    let twins: Twins<Arc<dyn Semaphore>> = Twins {
        memory: Arc::new(memory::Semaphore::new(&name)),
        redis: Arc::new(client.semaphore(&name)),
    };
    let mut history = vec![format!("seed {seed}")];
    let mut waiting: Vec<Waiting<Result<()>>> = Vec::new();
    let mut guards: Vec<(Permit, Permit)> = Vec::new();
    if let Some(permits) = first {
        both!(history, twins, |it| it.try_set_permits(permits).await);
    }
    for _ in 0..CALLS {
        let permits = match random.u8(..20) {
            0 => 0,
            1 => MAX_PERMITS,
            2 => MAX_PERMITS + 1,
            _ => random.u32(1..5),
        };
        let few = random.u32(1..4);
        let available = twins.memory.available_permits().await.unwrap();
        // A caller that can be served gets plenty of time.
        let fits = available >= few.into();
        let wait = if fits { LONG } else { Duration::from_millis(3) };
        history.push(format!(
            "{available} are free; permits {permits}, few {few}"
        ));
        match random.u8(..16) {
            0 => both!(history, twins, |it| it.try_set_permits(permits).await),
            1 => both!(history, twins, |it| it.try_acquire(permits).await),
            2 => both!(history, twins, |it| it
                .try_acquire_for(few, Duration::ZERO)
                .await),
            // Beside waiters the call may have to wait until the queue is not blocked. Its outcome is open then.
            3 if !fits || waiting.is_empty() => {
                both!(history, twins, |it| it.try_acquire_for(few, wait).await);
            }
            4 => both!(history, twins, |it| it.release_if_exists(few).await),
            5 => {
                let delta = match random.u8(..8) {
                    0 => i32::MAX,
                    1 => i32::MIN,
                    _ => random.i32(-3..4),
                };
                both!(history, twins, |it| it.add_permits(delta).await);
            }
            6 if random.u8(..4) == 0 => both!(history, twins, |it| it.drain_permits().await),
            7 | 8 if waiting.len() < MOST_WAITING => {
                wait!(history, waiting, twins, few, |it| it.acquire(few).await);
            }
            9 if waiting.len() < MOST_WAITING => {
                let wait = if random.bool() { LONG } else { Duration::MAX };
                history.push(format!("{wait:?}"));
                wait!(history, waiting, twins, few, |it| it
                    .try_acquire_for(few, wait)
                    .await
                    .map(|taken| assert!(taken)));
            }
            10 => cancel_one(&mut waiting, &mut random, &mut history).await,
            11 => {
                let one = twins.memory.try_permit(few).await.unwrap();
                let two = twins.redis.try_permit(few).await.unwrap();
                history.push(format!("a guard of {few}: {}", one.is_some()));
                assert_eq!(one.is_some(), two.is_some(), "{history:#?}");
                guards.extend(one.zip(two));
            }
            12 => {
                if let Some((one, two)) = take_any(&mut random, &mut guards) {
                    history.push(format!("drop of a guard of {}", one.permits()));
                    drop((one, two));
                }
            }
            13 => {
                if let Some((one, two)) = take_any(&mut random, &mut guards) {
                    let told = (one.release().await, two.release().await);
                    assert_eq!(told.0, told.1, "{history:#?}");
                }
            }
            _ => both!(history, twins, |it| it.release(permits).await),
        }
        // Smaller requests pass a larger one as soon as it does not block the queue any more.
        until("what fits is served", LIMIT, async || {
            settle().await;
            let available = twins.memory.available_permits().await.unwrap();
            let sleeps = |one: &Waiting<_>| !one.calls.memory.is_finished();
            let mut asleep = waiting.iter().filter(|one| sleeps(one));
            asleep.all(|one| i64::from(one.amount) > available)
        })
        .await;
        for (one, two) in answered(&mut waiting, &history).await {
            assert_eq!(one, two, "{history:#?}");
        }
        // The release of a guard arrives later.
        let available = twins.memory.available_permits().await;
        until(
            &format!("{available:?} permits in Redis: {history:#?}"),
            LIMIT,
            async || twins.redis.available_permits().await == available,
        )
        .await;
        nobody_else_is_served(&waiting, &history);
    }
}

/// The kind of a time to live, which must be the same for both objects.
fn kind_of(ttl: RemainingTtl) -> &'static str {
    match ttl {
        RemainingTtl::Missing => "free",
        RemainingTtl::Persistent => "for ever",
        RemainingTtl::Expires(left) if left <= Duration::from_secs(30) => "renewed",
        RemainingTtl::Expires(_) => "for long",
    }
}

async fn locks(client: &Client, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let name = format!("lock-{seed}");
    let kind = random.u8(..3);
    let fenced = kind == 0;
    let twin = if fenced {
        memory::Lock::fenced(&name)
    } else {
        memory::Lock::new(&name)
    };
    // All holds have leases of one kind. The lock's contract covers a lease together with a renewal.
    let lease = random.bool().then_some(LONG);
    let leased = |lock: Arc<dyn Lock>| match lease {
        Some(lease) => lock.with_lease(lease),
        None => lock,
    };
    let owners: Vec<Twins<Arc<dyn Lock>>> = (0..3)
        .map(|owner| Twins::<Arc<dyn Lock>> {
            memory: leased(Arc::new(twin.with_owner(owner))),
            redis: leased(match kind {
                0 => Arc::new(client.fenced_lock(&name).with_owner(owner)),
                1 => Arc::new(client.lock(&name).with_owner(owner)),
                _ => Arc::new(client.fair_lock(&name).with_owner(owner)),
            }),
        })
        .collect();
    let mut history = vec![format!("seed {seed}, kind {kind}, lease {lease:?}")];
    let mut waiting: Vec<Waiting<Result<Option<Hold>>>> = Vec::new();
    let mut guards: Vec<(LockGuard, LockGuard)> = Vec::new();
    for _ in 0..CALLS {
        let owner = random.usize(..owners.len());
        let twins = &owners[owner];
        history.push(format!("owner {owner}"));
        // A caller that can be served gets plenty of time.
        let free =
            twins.memory.is_held().await.unwrap() || !twins.memory.is_locked().await.unwrap();
        let wait = if free { LONG } else { Duration::from_millis(3) };
        let told = |answer: &Result<Option<Hold>>| match answer {
            Ok(hold) => Ok(hold.as_ref().map(Hold::token)),
            Err(error) => Err(error.to_string().replace(char::is_numeric, "")),
        };
        match random.u8(..12) {
            0 | 1 => {
                let one = twins.memory.hold(Some(Duration::ZERO)).await;
                let two = twins.redis.hold(Some(Duration::ZERO)).await;
                history.push(format!("try: {:?}", told(&one)));
                assert_eq!(told(&one), told(&two), "{history:#?}");
            }
            2 => {
                let one = twins.memory.hold(Some(wait)).await;
                let two = twins.redis.hold(Some(wait)).await;
                history.push(format!("timed: {:?}", told(&one)));
                assert_eq!(told(&one), told(&two), "{history:#?}");
            }
            3 | 4 if waiting.len() < MOST_WAITING => {
                wait!(history, waiting, twins, 1, |it| it.hold(None).await);
            }
            5 if waiting.len() < MOST_WAITING => {
                wait!(history, waiting, twins, 1, |it| it.hold(Some(LONG)).await);
            }
            // Calls of one owner share a queue entry at a fair lock, also after the earliest call is cancelled.
            6 if kind == 2 => {}
            6 => cancel_one(&mut waiting, &mut random, &mut history).await,
            7 if random.u8(..4) == 0 => both!(history, twins, |it| it.force_unlock().await),
            8 => {
                let one = twins.memory.guarded(Some(Duration::ZERO)).await.unwrap();
                let two = twins.redis.guarded(Some(Duration::ZERO)).await.unwrap();
                history.push(format!("guard: {}", one.is_some()));
                assert_eq!(one.is_some(), two.is_some(), "{history:#?}");
                guards.extend(one.zip(two));
            }
            9 if !guards.is_empty() && random.bool() => {
                let place = random.usize(..guards.len());
                let (one, two) = &guards[place];
                let (one, two) = (one.again().await, two.again().await);
                history.push(format!("again: {}", one.is_ok()));
                assert_eq!(one.is_ok(), two.is_ok(), "{history:#?}");
                guards.extend(one.ok().zip(two.ok()));
            }
            9 => {
                if let Some((one, two)) = take_any(&mut random, &mut guards) {
                    history.push("drop of a guard".to_owned());
                    drop((one, two));
                }
            }
            _ => {
                let one = twins.memory.unlock().await.is_ok();
                let two = twins.redis.unlock().await.is_ok();
                history.push(format!("unlock: {one}"));
                assert_eq!(one, two, "{history:#?}");
            }
        }
        for (one, two) in answered(&mut waiting, &history).await {
            assert_eq!(told(&one), told(&two), "{history:#?}");
        }
        for twins in &owners {
            let held = twins.memory.hold_count().await;
            until(
                &format!("held {held:?} times in Redis: {history:#?}"),
                LIMIT,
                async || twins.redis.hold_count().await == held,
            )
            .await;
        }
        // The release of a guard arrives later.
        let locked = owners[0].memory.is_locked().await;
        until(
            &format!("locked {locked:?} in Redis: {history:#?}"),
            LIMIT,
            async || owners[0].redis.is_locked().await == locked,
        )
        .await;
        nobody_else_is_served(&waiting, &history);
        for twins in &owners {
            let (one, two) = (twins.memory.lease(), twins.redis.lease());
            let known = |lease: &redisson_semaphore::Lease| {
                (
                    lease.is_lost(),
                    lease.remaining().map(|left| left.is_zero()),
                )
            };
            if twins.memory.is_held().await.unwrap() {
                assert_eq!(known(&one), known(&two), "{history:#?}");
            }
        }
        both!(history, twins, |it| it.is_locked().await);
        both!(history, twins, |it| it.remaining_ttl().await.map(kind_of));
    }
}

async fn leased(client: &Client, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let name = format!("leased-{seed}");
    let limit = random.u32(1..5);
    let kind = ["slots", "times", "fair", "set"][random.usize(..4)];
    let original: Arc<dyn LeasedSemaphore> = match kind {
        "slots" => Arc::new(
            client
                .slot_semaphore(&name, limit)
                .timeout(LONG)
                .check_interval(LONG),
        ),
        "times" => Arc::new(
            client
                .timestamp_semaphore(&name, limit)
                .timeout(LONG)
                .check_interval(LONG),
        ),
        "fair" => Arc::new(
            client
                .fair_semaphore(&name, limit)
                .timeout(LONG)
                .check_interval(LONG),
        ),
        _ => Arc::new(client.set_semaphore(&name, limit).check_interval(LONG)),
    };
    // All layouts serve callers alike. Only slots distinguish permits, as the in-memory implementation does.
    let told = |slot: Option<u32>| slot.filter(|_| kind == "slots");
    let twins: Twins<Arc<dyn LeasedSemaphore>> = Twins {
        memory: Arc::new(memory::LeasedSemaphore::new(&name, limit, original.lease())),
        redis: original,
    };
    let mut history = vec![format!("seed {seed}: {kind}, limit {limit}")];
    let mut waiting: Vec<Waiting<Result<Option<Held>>>> = Vec::new();
    let mut held: Vec<(Held, Held)> = Vec::new();
    let mut guards: Vec<(LeasedPermit, LeasedPermit)> = Vec::new();
    let slot = |answer: &Result<Option<Held>>| match answer {
        Ok(held) => Ok(held.as_ref().map(|held| told(held.slot()))),
        Err(error) => Err(error.clone()),
    };
    for _ in 0..CALLS {
        // A caller that can be served gets plenty of time.
        let free = twins.memory.holders().await.unwrap().len() < limit as usize;
        let wait = if free { LONG } else { Duration::from_millis(3) };
        match random.u8(..14) {
            0 | 1 => {
                let (one, two) = (
                    twins.memory.try_acquire().await,
                    twins.redis.try_acquire().await,
                );
                history.push(format!("try: {:?}", slot(&one)));
                assert_eq!(slot(&one), slot(&two), "{history:#?}");
                held.extend(one.unwrap().zip(two.unwrap()));
            }
            2 => {
                let one = twins.memory.try_acquire_for(wait).await;
                let two = twins.redis.try_acquire_for(wait).await;
                history.push(format!("timed: {:?}", slot(&one)));
                assert_eq!(slot(&one), slot(&two), "{history:#?}");
                held.extend(one.unwrap().zip(two.unwrap()));
            }
            3 | 4 if waiting.len() < MOST_WAITING => {
                wait!(history, waiting, twins, 1, |it| it
                    .acquire()
                    .await
                    .map(Some));
                // The server answers this call after the waiter's request, so the waiter is in the queue by then.
                twins.redis.holders().await.unwrap();
            }
            5 if waiting.len() < MOST_WAITING => {
                wait!(history, waiting, twins, 1, |it| it
                    .try_acquire_for(LONG)
                    .await);
                twins.redis.holders().await.unwrap();
            }
            6 => cancel_one(&mut waiting, &mut random, &mut history).await,
            7 if random.u8(..4) == 0 => {
                both!(history, twins, |it| it.release_all().await);
            }
            8 => {
                let (one, two) = (
                    twins.memory.try_permit().await,
                    twins.redis.try_permit().await,
                );
                let (one, two) = (one.unwrap(), two.unwrap());
                let slots = |permit: &Option<LeasedPermit>| {
                    permit.as_ref().map(|permit| told(permit.slot()))
                };
                history.push(format!("guard: {:?}", slots(&one)));
                assert_eq!(slots(&one), slots(&two), "{history:#?}");
                guards.extend(one.zip(two));
            }
            9 => {
                if let Some((one, two)) = take_any(&mut random, &mut guards) {
                    history.push(format!("drop of the guard of {:?}", one.slot()));
                    drop((one, two));
                }
            }
            10 => {
                if let Some((one, two)) = take_any(&mut random, &mut guards) {
                    history.push(format!("forgotten: {:?}", one.slot()));
                    held.push((one.forget(), two.forget()));
                }
            }
            11 => {
                if let Some((one, two)) = held.last() {
                    let told = (
                        twins.memory.refresh(one.id()).await,
                        twins.redis.refresh(two.id()).await,
                    );
                    history.push(format!("refresh: {:?}", told.0));
                    assert_eq!(told.0, told.1, "{history:#?}");
                }
            }
            _ => {
                // The permit sometimes stays in the list, so that it is released twice.
                let again = random.u8(..6) == 0;
                if let Some((one, two)) = take_any(&mut random, &mut held) {
                    let told = (
                        twins.memory.release(one.id()).await,
                        twins.redis.release(two.id()).await,
                    );
                    history.push(format!("release of {:?}: {:?}", one.slot(), told.0));
                    assert_eq!(told.0, told.1, "{history:#?}");
                    held.extend(again.then_some((one, two)));
                }
            }
        }
        for (one, two) in answered(&mut waiting, &history).await {
            // Waiters may take permits in another order when several permits are released at once.
            let taken = (one.unwrap(), two.unwrap());
            assert_eq!(taken.0.is_some(), taken.1.is_some(), "{history:#?}");
            held.extend(taken.0.zip(taken.1));
        }
        let slots = async |semaphore: &Arc<dyn LeasedSemaphore>| {
            let mut slots: Vec<_> = semaphore
                .holders()
                .await
                .unwrap()
                .iter()
                .map(|held| told(held.slot()))
                .collect();
            slots.sort_unstable();
            slots
        };
        let there = slots(&twins.memory).await;
        until(
            &format!("{there:?} held in Redis: {history:#?}"),
            LIMIT,
            async || slots(&twins.redis).await == there,
        )
        .await;
        nobody_else_is_served(&waiting, &history);
    }
}

#[tokio::test]
async fn semaphores_answer_alike() {
    let server = RedisServer::start().await;
    let handing_over = connect(server.url()).await;
    let builder = builder(server.url()).local_hand_off(Duration::ZERO);
    let through_redis = builder.connect().await.unwrap();
    for seed in 0..SEQUENCES {
        // A release that serves a waiter within the process leaves no trace in Redis, not even the counter that it would create.
        // So the counter exists from the start there.
        if seed % 2 == 0 {
            semaphores(&handing_over, seed, Some(2)).await;
        } else {
            semaphores(&through_redis, seed, None).await;
        }
    }
}

#[tokio::test]
async fn locks_answer_alike() {
    let server = RedisServer::start().await;
    let client = connect(server.url()).await;
    for seed in 0..SEQUENCES {
        locks(&client, seed).await;
    }
}

#[tokio::test]
async fn semaphores_with_ids_answer_alike() {
    let server = RedisServer::start().await;
    let client = connect(server.url()).await;
    for seed in 0..SEQUENCES {
        leased(&client, seed).await;
    }
}
