//! Runs many histories on all cores, for a time or a number of them.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::history::{self, Outcome};
use super::judge::Fault;
use super::plan::Plan;

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Makes each history report its panics, wherever they were caught.
pub fn keep_panics() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if thread::current().name() == Some(NAME) {
            PANIC.with_borrow_mut(|first| {
                first.get_or_insert_with(|| info.to_string());
            });
        } else {
            usual(info);
        }
    }));
}

const NAME: &str = "history";
/// A history that takes longer than this by the clock on the wall goes round in circles.
const LONGEST: Duration = Duration::from_secs(600);
const PROGRESS: Duration = Duration::from_secs(10);

/// Runs one history, on a thread of its own. A panic is a fault.
pub fn carry_out(plan: &Plan) -> Outcome {
    let (sender, outcome) = mpsc::channel();
    thread::scope(|scope| {
        let history = thread::Builder::new().name(NAME.to_owned());
        let history = history.spawn_scoped(scope, || {
            let outcome = panic::catch_unwind(AssertUnwindSafe(|| history::carry_out(plan)));
            let mut outcome = outcome.unwrap_or_default();
            if let Some(detail) = PANIC.take() {
                let judge = "panic";
                outcome.fault = Some(Fault { judge, detail });
            }
            sender.send(outcome).expect("it is waited for");
        });
        history.expect("a thread starts");
        outcome.recv_timeout(LONGEST).unwrap_or_else(|_| {
            println!("SEED={} does not end", plan.seed);
            std::process::exit(1)
        })
    })
}

/// Calls `is_well` with one number after the other, on all cores. Ends when there is nothing to do (`None`), or when something is not well. Returns
/// whether all was well.
pub fn on_all_cores(is_well: impl Fn(u64) -> Option<bool> + Sync) -> bool {
    let (next, well) = (AtomicU64::new(0), AtomicBool::new(true));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while well.load(Ordering::SeqCst)
                    && let Some(is_well) = is_well(next.fetch_add(1, Ordering::SeqCst))
                {
                    well.fetch_and(is_well, Ordering::SeqCst);
                }
            });
        }
    });
    well.into_inner()
}

/// Runs histories for a while, until one fails. Returns its seed; if several fail at once, the lowest one.
pub fn hunt(from: u64, time: Duration) -> Option<u64> {
    let (began, shown) = (Instant::now(), Mutex::new(Instant::now()));
    let found = Mutex::new(None::<(u64, Fault)>);
    let totals = Mutex::new([0; 4]);
    println!("hunt: from seed {from} on");
    on_all_cores(|number| {
        if began.elapsed() >= time {
            return None;
        }
        let seed = from + number;
        let outcome = carry_out(&Plan::of(seed));
        let done = [1, outcome.calls, outcome.granted, outcome.commands];
        for (total, more) in totals.lock().unwrap().iter_mut().zip(done) {
            *total += more;
        }
        let mut shown = shown.lock().unwrap();
        if shown.elapsed() >= PROGRESS {
            *shown = Instant::now();
            show(*totals.lock().unwrap(), began);
        }
        let well = outcome.fault.is_none();
        if let Some(fault) = outcome.fault {
            let mut found = found.lock().unwrap();
            if found.as_ref().is_none_or(|(first, _)| seed < *first) {
                *found = Some((seed, fault));
            }
        }
        Some(well)
    });
    show(totals.into_inner().unwrap(), began);
    let (seed, fault) = found.into_inner().unwrap()?;
    let seconds = began.elapsed().as_secs_f64();
    println!("SEED={seed} fails after {seconds:.1} s: {fault}");
    Some(seed)
}

fn show([histories, calls, granted, commands]: [u64; 4], began: Instant) {
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "hunt: {seconds:.0} s: {histories} histories ({:.0} a minute), {calls} calls, {granted} grants, {commands} commands",
        histories as f64 * 60.0 / seconds,
    );
}

/// Runs each of these histories twice. Returns whether both runs were the same, to the byte.
pub fn twice(from: u64, count: u64) -> bool {
    on_all_cores(|number| {
        let seed = Some(number).filter(|number| *number < count)? + from;
        let plan = Plan::of(seed);
        let [one, two] = [carry_out(&plan), carry_out(&plan)];
        let same = one.lines == two.lines;
        if !same {
            println!("SEED={seed} is not the same twice:");
            let mut both = one.lines.iter().zip(&two.lines);
            if let Some((one, two)) = both.find(|(one, two)| one != two) {
                println!("{one}\n{two}");
            }
        }
        Some(same)
    })
}
