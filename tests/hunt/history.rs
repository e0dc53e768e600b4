//! A history: runs a plan, and has it judged.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redisson_semaphore::outside::simulate;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::judge::{Fault, Judge, Object, Rules};
use super::net::Doings;
use super::plan::{Call, Death, FAIR_SHARE, LockKind, Plan, Settings, What};
use super::tasks;
use super::trace::Trace;
use super::world::{self, Sky, World};

/// The outcome of a history.
#[derive(Default)]
pub struct Outcome {
    pub fault: Option<Fault>,
    pub lines: Vec<String>,
    pub commands: u64,
    pub granted: u64,
    pub calls: u64,
}

/// Every waiter that can be served is served within this time after the healing.
const LIVENESS: Duration = Duration::from_secs(300);
/// An allowance for the objects of calls that hold nothing: a semaphore, under both of its names, and a latch.
const OTHERS: usize = 5;
/// After this time, everything that a dead client has sent has arrived.
const LATE: Duration = Duration::from_secs(30);
/// While there is enough, a waiter is served within this time: clients with a high latency may take 1 s of it.
const PATIENCE: Duration = Duration::from_millis(1500);
/// How long a timed call may take in addition to its wait, unless a call timeout is set.
const TIMED_CALL: Duration = Duration::from_secs(5);
/// How many entries of dead clients may stand before a caller in the queue of a fair lock.
const MOST_DEAD: u32 = 30;

/// Runs the plan.
pub fn carry_out(plan: &Plan) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime can be made");
    let judge = runtime.block_on(async {
        let doings = Doings::default();
        let sky = Sky {
            doings: doings.clone(),
            began: Instant::now(),
        };
        tasks::clear();
        let _simulated = simulate(Rc::new(sky), plan.seed);
        let judge = Judge::new(Trace::default(), rules(plan));
        let judge = Arc::new(Mutex::new(judge));
        let world = World::new(plan, doings, Arc::clone(&judge));
        let world = Rc::new(RefCell::new(world));
        tokio::select! {
            biased;
            () = world::run(Rc::clone(&world)) => {}
            () = first_fault(&judge) => {}
            () = last_act(&world, &judge, plan) => {}
        }
        judge.lock().unwrap().trace.close();
        judge
    });
    drop(runtime);
    let judge = Arc::into_inner(judge)
        .expect("everybody has gone")
        .into_inner()
        .unwrap();
    Outcome {
        fault: judge.fault,
        commands: judge.commands,
        granted: judge.granted,
        calls: judge.calls,
        lines: judge.trace.into_lines(),
    }
}

fn happens(plan: &Plan, what: fn(&What) -> bool) -> bool {
    plan.events.iter().any(|event| what(&event.what))
}

fn meddles(what: &What) -> bool {
    matches!(what, What::Meddle(_))
}

fn rules(plan: &Plan) -> Rules {
    let settings = &plan.settings;
    let is = |what: fn(&What) -> bool| happens(plan, what);
    let tampered = is(What::tampers);
    let forgetful = is(|what| match what {
        What::Server(_, fault) => fault.forgets(),
        What::Shift(shift) => shift.forgets(),
        _ => false,
    });
    let replicated = settings.replication.is_some();
    let crossing = settings.round_trip();
    // A client learns that its queue is gone only at its next safety check.
    let patience = match tampered {
        true => PATIENCE + settings.safety_interval,
        false => PATIENCE,
    };
    let leases = plan.events.iter().filter_map(|event| match &event.what {
        What::Call(_, call) => call.lease.max(call.nested.and_then(|(lease, _)| lease)),
        _ => None,
    });
    Rules {
        permits: settings.permits.clone(),
        exact: (settings.watched.iter())
            .map(|watched| *watched && settings.jvms == 0 && !tampered)
            .collect(),
        patience,
        patience_at_locks: match settings.lock_kind {
            LockKind::Fair => patience + FAIR_SHARE * MOST_DEAD,
            _ => patience,
        },
        safety_interval: settings.safety_interval,
        lookers: (settings.recipes.iter())
            .map(|recipe| if recipe.is_polled() { 2 } else { 1 })
            .collect(),
        near: !tampered
            && settings.jvms == 0
            && crossing + settings.confirming() < Duration::from_millis(4),
        orderly: settings.orderly,
        meddled: is(meddles),
        // A replica that takes over may lack writes that were never confirmed to a caller.
        forgetful: forgetful || replicated,
        replicated,
        evicts: is(What::evicts),
        loses: forgetful && !replicated,
        watchdog: settings.watchdog,
        clients: settings.clients,
        masters: settings.masters,
        objects: settings.permits.len() + settings.locks + settings.recipes.len() + OTHERS,
        looks: looks(settings),
        stops: is(|what| matches!(what, What::Stop(..))),
        gives_up_after: (settings.call_timeout.unwrap_or(TIMED_CALL)).min(settings.retry_window),
        response_timeout: settings.response_timeout,
        longest_lease: leases.max().unwrap_or_default().max(settings.watchdog),
        crossing,
    }
}

/// Whether a name consists of a letter and a number.
fn is_object(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(char::is_alphabetic) && chars.all(|char| char.is_ascii_digit())
}

/// How often in a second a client renews leases, and its waiters at recipes check. Each counts twice, as a notification may come in between.
fn looks(settings: &Settings) -> f64 {
    let in_a_second = |period: Duration| 2.0 / period.as_secs_f64();
    let recipes = settings.recipes.iter().filter(|recipe| recipe.is_polled());
    let recipes: f64 = recipes.map(|recipe| in_a_second(recipe.check)).sum();
    in_a_second(settings.watchdog / 3) + recipes
}

async fn first_fault(judge: &Mutex<Judge>) {
    while judge.lock().unwrap().fault.is_none() {
        sleep(Duration::from_millis(50)).await;
    }
}

fn tasks() -> usize {
    let metrics = tokio::runtime::Handle::current().metrics();
    metrics.num_alive_tasks()
}

/// How long all locks are held in sum: all callers may want the same lock, one after the other.
fn longest_held(plan: &Plan) -> Duration {
    const NESTED: u32 = 3;
    let calls = plan.events.iter().filter_map(|event| match &event.what {
        What::Call(_, call) if matches!(call.object, Object::Lock(_)) => Some(call),
        _ => None,
    });
    let times = |call: &Call| call.rounds * if call.nested.is_some() { NESTED } else { 1 };
    calls.map(|call| call.hold * times(call)).sum()
}

/// The end of a history: healing, liveness, quiet and shutdown.
async fn last_act(world: &RefCell<World>, judge: &Mutex<Judge>, plan: &Plan) {
    let accuse = |by, detail: String| judge.lock().unwrap().accuse(by, detail);
    let began = Instant::now();
    sleep_until(began + plan.settings.healing).await;
    world.borrow_mut().heal();
    judge.lock().unwrap().heals();
    // The permits of dead clients come back only while another client uses the semaphore.
    world.borrow().look_in();
    // If the first two waiters in a recipe's queue are dead, the others find what peers and dead clients leave only by the slow check.
    let found = match plan.settings.recipes.is_empty() {
        true => Duration::ZERO,
        false => 2 * plan.settings.safety_interval,
    };
    let limit = Instant::now() + LIVENESS.max(longest_held(plan)) + found;
    let mut next_look = Instant::now() + LATE;
    loop {
        sleep(Duration::from_millis(500)).await;
        if Instant::now() > next_look {
            // Once more: a late request of a dead client may have taken permits since.
            world.borrow().look_in();
            next_look += LATE;
        }
        let actors = world.borrow().stage.actors();
        for actor in actors {
            // A client that has not connected yet has this time to connect.
            let _ = timeout(Duration::from_secs(60), actor.give_kept()).await;
        }
        world.borrow_mut().replace_permits();
        world.borrow_mut().take_from_the_dead();
        world.borrow_mut().give_back_what_is_forgotten();
        world.borrow_mut().open_latch();
        world.borrow_mut().wake_jvms();
        let waits = judge.lock().unwrap().somebody_waits();
        match waits {
            None if world.borrow().stage.is_idle() && world.borrow().jvms_are_idle() => break,
            None => {}
            Some(who) if Instant::now() > limit => {
                accuse("liveness", who);
                return;
            }
            Some(_) => {}
        }
        if Instant::now() > limit {
            accuse("liveness", "callers go on".to_owned());
            return;
        }
    }
    if let Some(object) = plan.settings.orderly {
        // Each waiter at a fair lock checks when a lease may end.
        let fair = plan.settings.lock_kind == LockKind::Fair;
        let polled = plan.settings.is_polled(object) || fair && matches!(object, Object::Lock(_));
        judge.lock().unwrap().judge_orderly(polled);
    }
    // Once more: a late request may have arrived while no client used its object, or a server may have lost a release.
    sleep(LATE).await;
    world.borrow().look_in();
    // The script of that call may have granted permits to dead clients. The next script takes them back.
    sleep(Duration::from_secs(5)).await;
    world.borrow().look_in();
    // All late announcements to JVMs are over after this time, though a client may be slow to notice that its connection is dead.
    sleep(Duration::from_secs(200)).await;
    let before = judge.lock().unwrap().work;
    sleep(Duration::from_secs(30)).await;
    let more = judge.lock().unwrap().work - before;
    if more > 0 {
        accuse(
            "quiet",
            format!("{more} commands in 30 s, with nobody there"),
        );
    }
    judge.lock().unwrap().rests();
    let keys = world.borrow_mut().keys();
    let made = world.borrow().connections_made();
    judge.lock().unwrap().judge_size(&keys, made);
    if !world.borrow().stage.somebody_died() {
        judge.lock().unwrap().judge_tasks(tasks());
    }
    for actor in world.borrow().stage.actors() {
        if let Some(entries) = actor.entries() {
            let mut judge = judge.lock().unwrap();
            judge.judge_memory(actor.host, &entries, made);
        }
    }
    judge.lock().unwrap().judge_records();
    // A peer leaves a lock without an expiry if it dies, or if a server forgets the peer's second step. The next waiter gives the lock an expiry, but
    // there may be no further waiter.
    let forgets = judge.lock().unwrap().may_forget();
    let deaths = plan.events.iter().any(|event| match &event.what {
        What::Peer(peer) => forgets || peer.dies == Some(Death::WithTheLock),
        _ => false,
    });
    let is_of_a_dead_peer = |key: &str| deaths && key.starts_with("lock:");
    for (key, _) in world.borrow_mut().keys() {
        // All other locks have ended by now: a holder that kept one has died long ago.
        if key.starts_with('l') && !is_of_a_dead_peer(&key) {
            accuse("leftovers", format!("{key} is locked for nobody"));
        }
    }
    let actors = world.borrow().stage.actors();
    for actor in actors {
        actor.shut_down(true, None).await;
    }
    // The closing of the connections has to reach the server.
    sleep(Duration::from_secs(60)).await;
    let open = world.borrow().connections();
    if !open.is_empty() {
        let detail = format!("connections stay open: {}", open.join(", "));
        accuse("leftovers", detail);
    }
    let tasks = tasks();
    if tasks > 0 && !world.borrow().stage.somebody_died() {
        accuse("leftovers", format!("{tasks} tasks go on"));
    }
    let keys = world.borrow_mut().keys();
    let somebody_died = world.borrow().stage.somebody_died();
    let meddled = happens(plan, meddles);
    for (key, left) in keys {
        // The next caller skips entries of dead clients in the queue of a fair lock, and entries whose end is forgotten or unreadable.
        let passed_later = (somebody_died || forgets || meddled)
            && ["queue", "timeout"]
                .iter()
                .any(|which| key.starts_with(&format!("redisson_lock_{which}:")));
        // The next caller removes the holds of dead clients at recipes, and their grants at a set. Tokens and numbers are kept for ever.
        let kept = [":counter", ":owner", ":timeout"]
            .iter()
            .any(|end| key.ends_with(end))
            || somebody_died && key.starts_with("redisson_sc_recipe_grants:set:");
        let name = key.trim_start_matches('x').trim_matches(['{', '}']);
        let counter = is_object(name) || kept || key.contains("_token:");
        if left == -1 && !counter && !is_of_a_dead_peer(&key) && !passed_later {
            accuse("leftovers", format!("{key} stays for ever"));
        }
    }
}
