//! Many histories: on all cores, for a time or so many.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::history::{self, Outcome};
use super::judge::Fault;
use super::plan::Plan;

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Panics are told by the history in which they happen, wherever they were caught.
pub fn keep_panics() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let simulated = thread::current().name() == Some(NAME);
        if simulated {
            PANIC.with_borrow_mut(|first| {
                first.get_or_insert_with(|| info.to_string());
            });
        } else {
            usual(info);
        }
    }));
}

const NAME: &str = "history";
/// In this time by the clock on the wall every history has ended, or goes round in circles.
const LONGEST: Duration = Duration::from_secs(600);

/// Carries one history out; a panic is a fault.
pub fn carry_out(plan: &Plan, whole: bool) -> Outcome {
    let (sender, outcome) = mpsc::channel();
    thread::scope(|scope| {
        let history = thread::Builder::new().name(NAME.to_owned());
        let history = history.spawn_scoped(scope, || {
            let outcome = on_this_thread(plan, whole);
            sender.send(outcome).expect("it is waited for");
        });
        history.expect("a thread starts");
        let outcome = outcome.recv_timeout(LONGEST);
        outcome.unwrap_or_else(|_| does_not_end(plan.seed))
    })
}

fn does_not_end(seed: u64) -> ! {
    println!("SEED={seed} does not end");
    std::process::exit(1)
}

fn on_this_thread(plan: &Plan, whole: bool) -> Outcome {
    unless_it_panics(|| history::carry_out(plan, whole))
}

fn of_seed(seed: u64) -> Outcome {
    unless_it_panics(|| history::carry_out(&Plan::of(seed), false))
}

fn unless_it_panics(act: impl FnOnce() -> Outcome) -> Outcome {
    PANIC.take();
    let outcome = panic::catch_unwind(AssertUnwindSafe(act));
    let mut outcome = outcome.unwrap_or_default();
    if let Some(detail) = PANIC.take() {
        let judge = "panic";
        outcome.fault = Some(Fault { judge, detail });
    }
    outcome
}

/// What is done so far.
#[derive(Default)]
struct Totals {
    histories: AtomicU64,
    commands: AtomicU64,
    calls: AtomicU64,
    granted: AtomicU64,
}

/// Carries histories out for a while, of each `step`-th seed, until one fails, or all of them (`go_on`): the seed of the first one that
/// fails.
pub fn hunt(from: u64, step: u64, time: Duration, go_on: bool) -> Option<u64> {
    let began = Instant::now();
    let (next, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let found = Mutex::new(None::<(u64, Fault)>);
    let totals = Totals::default();
    let workers = cores();
    let at_work: Vec<Mutex<Option<(u64, Instant)>>> =
        (0..workers).map(|_| Mutex::new(None)).collect();
    println!("hunt: from seed {from} on, on {workers} cores");
    thread::scope(|scope| {
        let mut handles = Vec::new();
        for mine in &at_work {
            let worker = || {
                while !done.load(Ordering::SeqCst) {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if began.elapsed() >= time {
                        break;
                    }
                    let seed = from + number * step;
                    *mine.lock().unwrap() = Some((seed, Instant::now()));
                    let outcome = of_seed(seed);
                    *mine.lock().unwrap() = None;
                    totals.histories.fetch_add(1, Ordering::Relaxed);
                    totals
                        .commands
                        .fetch_add(outcome.commands, Ordering::Relaxed);
                    totals.calls.fetch_add(outcome.calls, Ordering::Relaxed);
                    totals.granted.fetch_add(outcome.granted, Ordering::Relaxed);
                    if let Some(fault) = outcome.fault {
                        if go_on {
                            println!("SEED={seed}: {fault}");
                        }
                        let mut found = found.lock().unwrap();
                        if found.as_ref().is_none_or(|(first, _)| seed < *first) {
                            *found = Some((seed, fault));
                        }
                        done.store(!go_on, Ordering::SeqCst);
                    }
                }
            };
            let thread = thread::Builder::new().name(NAME.to_owned());
            handles.push(thread.spawn_scoped(scope, worker).expect("a thread starts"));
        }
        let mut shown = Instant::now();
        while !handles.iter().all(|handle| handle.is_finished()) {
            thread::sleep(Duration::from_millis(100));
            if shown.elapsed() >= Duration::from_secs(10) {
                shown = Instant::now();
                show(&totals, began);
            }
            for mine in &at_work {
                let stuck = mine
                    .lock()
                    .unwrap()
                    .filter(|(_, since)| since.elapsed() > LONGEST);
                if let Some((seed, _)) = stuck {
                    does_not_end(seed);
                }
            }
        }
    });
    show(&totals, began);
    let (seed, fault) = found.into_inner().unwrap()?;
    println!(
        "SEED={seed} fails after {:.1} s: {fault}",
        began.elapsed().as_secs_f64()
    );
    Some(seed)
}

fn show(totals: &Totals, began: Instant) {
    let of = |total: &AtomicU64| total.load(Ordering::Relaxed);
    let histories = of(&totals.histories);
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "hunt: {seconds:.0} s: {histories} histories ({:.0} a minute), {} calls, {} grants, {} commands",
        histories as f64 * 60.0 / seconds,
        of(&totals.calls),
        of(&totals.granted),
        of(&totals.commands),
    );
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Whether all of so many are well; no other one begins behind one that is not.
pub fn on_all_cores(count: usize, is_well: impl Fn(usize) -> bool + Sync) -> bool {
    let (next, well) = (AtomicUsize::new(0), AtomicBool::new(true));
    thread::scope(|scope| {
        for _ in 0..cores() {
            scope.spawn(|| {
                while well.load(Ordering::SeqCst) {
                    match next.fetch_add(1, Ordering::SeqCst) {
                        number if number >= count => break,
                        number if is_well(number) => {}
                        _ => well.store(false, Ordering::SeqCst),
                    }
                }
            });
        }
    });
    well.into_inner()
}

/// Carries each of so many histories out twice; whether they were the same, to the byte.
pub fn twice(from: u64, count: u64) -> bool {
    let count = usize::try_from(count).expect("as many as there is memory for");
    let well = on_all_cores(count, |number| is_same_twice(from + number as u64));
    if well {
        println!("hunt: {count} histories from seed {from} on were the same twice");
    }
    well
}

fn is_same_twice(seed: u64) -> bool {
    let plan = Plan::of(seed);
    let [one, two] = [carry_out(&plan, true), carry_out(&plan, true)];
    let same = one.lines == two.lines && one.digest == two.digest;
    if !same {
        println!("SEED={seed} is not the same twice:");
        let mut both = one.lines.iter().zip(&two.lines);
        if let Some((one, two)) = both.find(|(one, two)| one != two) {
            println!("{one}\n{two}");
        }
    }
    same
}
