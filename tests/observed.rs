//! Metrics and spans of waits and of guards.

mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use support::clients::{LIMIT, connect, served};
use support::server::RedisServer;
use support::waiters::{until, waiter};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};

/// The recorded metrics by name and labels: the sum of a counter or gauge, the number of values of a histogram.
static TOLD: LazyLock<Mutex<BTreeMap<String, f64>>> = LazyLock::new(Mutex::default);

struct Told(String);

impl Told {
    fn of(key: &Key) -> Arc<Told> {
        let labels = key
            .labels()
            .map(|label| format!(" {}={}", label.key(), label.value()));
        Arc::new(Told(key.name().to_owned() + &labels.collect::<String>()))
    }

    fn add(&self, value: f64) {
        *TOLD.lock().unwrap().entry(self.0.clone()).or_default() += value;
    }
}

impl CounterFn for Told {
    fn increment(&self, value: u64) {
        self.add(value as f64);
    }

    fn absolute(&self, _: u64) {
        panic!("clients of one process add up");
    }
}

impl GaugeFn for Told {
    fn increment(&self, value: f64) {
        self.add(value);
    }

    fn decrement(&self, value: f64) {
        self.add(-value);
    }

    fn set(&self, _: f64) {
        panic!("clients of one process add up");
    }
}

impl HistogramFn for Told {
    fn record(&self, value: f64) {
        assert!((0.0..60.0).contains(&value), "{value} s");
        self.add(1.0);
    }
}

struct Recording;

impl Recorder for Recording {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Told::of(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(Told::of(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Told::of(key))
    }
}

fn told(name: &str) -> f64 {
    let told = TOLD.lock().unwrap();
    let name = format!("redisson_semaphore_{name}");
    told.get(&name).copied().unwrap_or(0.0)
}

/// One test after the other, as the recorder gets all that happens in this process.
#[tokio::test]
async fn waits_and_guards_are_told() {
    metrics_tell_of_waits_and_of_what_is_held().await;
    there_is_a_span_for_each_wait_and_each_guard().await;
}

async fn metrics_tell_of_waits_and_of_what_is_held() {
    let set = metrics::set_global_recorder(Recording).is_ok();
    assert!(set, "it is the only one");
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let (client, other) = (connect(server.url()).await, connect(server.url()).await);
    let seats = client.semaphore("seats");
    seats.try_set_permits(3).await.unwrap();
    let three = seats.permit(3).await.unwrap();
    let guard = other.lock("door").guard().await.unwrap();
    assert!(!client.lock("door").try_lock().await.unwrap());
    let waiting = waiter(&mut control, &seats, 1).await;
    until("it is told", LIMIT, async || {
        told("held_permits") == 3.0 && told("held_locks") == 1.0 && told("waiting") == 1.0
    })
    .await;
    assert_eq!(told("granted_total"), 2.0, "of both clients");
    assert_eq!(told("refused_total"), 1.0);
    assert_eq!(told("wait_seconds what=permits"), 1.0);
    assert_eq!(told("wait_seconds what=lock"), 1.0);
    assert_eq!(told("hold_seconds what=permits"), 0.0);
    three.release().await.unwrap();
    served(waiting).await;
    guard.unlock().await.unwrap();
    assert_eq!(told("wait_seconds what=permits"), 2.0);
    assert_eq!(told("hold_seconds what=permits"), 1.0);
    assert_eq!(told("hold_seconds what=lock"), 1.0);
    // The metrics that are not recorded when a client ends are recorded then.
    seats.permit(1).await.unwrap().release().await.unwrap();
    client.shutdown().await.unwrap();
    drop((seats, client));
    until("nothing is held", LIMIT, async || {
        told("granted_total") == 4.0
            && [told("held_permits"), told("held_locks"), told("waiting")] == [0.0; 3]
    })
    .await;
}

/// The spans that there are, by name and object; of those that are over, the number goes down.
static SPANS: LazyLock<Mutex<Spans>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Spans {
    open: BTreeMap<u64, (String, u32)>,
    over: Vec<String>,
}

struct Subscriber;

#[derive(Default)]
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!(" {}={value:?}", field.name());
    }
}

impl tracing::Subscriber for Subscriber {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target().starts_with("redisson_semaphore")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let id = LAST.fetch_add(1, Ordering::SeqCst) + 1;
        let mut fields = Fields(span.metadata().name().to_owned());
        span.record(&mut fields);
        SPANS.lock().unwrap().open.insert(id, (fields.0, 1));
        Id::from_u64(id)
    }

    fn clone_span(&self, id: &Id) -> Id {
        let mut spans = SPANS.lock().unwrap();
        if let Some((_, count)) = spans.open.get_mut(&id.into_u64()) {
            *count += 1;
        }
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut spans = SPANS.lock().unwrap();
        let Some((name, count)) = spans.open.get_mut(&id.into_u64()) else {
            return false;
        };
        *count -= 1;
        if *count > 0 {
            return false;
        }
        let name = std::mem::take(name);
        spans.open.remove(&id.into_u64());
        spans.over.push(name);
        true
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &tracing::Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn of<'a>(spans: impl Iterator<Item = &'a String>, object: &str) -> Vec<String> {
    let about = |span: &&String| span.contains(object);
    spans.filter(about).cloned().collect()
}

fn open(object: &str) -> Vec<String> {
    let spans = SPANS.lock().unwrap();
    of(spans.open.values().map(|(name, _)| name), object)
}

fn over(object: &str) -> Vec<String> {
    of(SPANS.lock().unwrap().over.iter(), object)
}

async fn there_is_a_span_for_each_wait_and_each_guard() {
    tracing::subscriber::set_global_default(Subscriber).expect("the only one");
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    let seats = client.semaphore("places");
    seats.try_set_permits(3).await.unwrap();
    let mut all = seats.permit(3).await.unwrap();
    let wait = |amount| format!("wait name=\"places\" what=\"permits\" amount={amount}");
    let hold = "hold name=\"places\" what=\"permits\" amount=3".to_owned();
    assert_eq!(over("places"), [wait(3)]);
    assert_eq!(open("places"), std::slice::from_ref(&hold));
    let waiting = waiter(&mut control, &seats, 2).await;
    assert_eq!(open("places"), [hold.clone(), wait(2)]);
    let two = all.split(2).unwrap();
    drop(all);
    assert_eq!(open("places"), [hold.clone(), wait(2)]);
    two.release().await.unwrap();
    served(waiting).await;
    // The task that waited may go after its answer.
    until("all is over", LIMIT, async || open("places").is_empty()).await;
    let mut ended = over("places");
    ended.sort();
    assert_eq!(ended, [hold, wait(2), wait(3)]);
    drop(client.lock("gate").guard().await.unwrap());
    let lock = |span| format!("{span} name=\"gate\" what=\"lock\" amount=1");
    assert_eq!(over("gate"), [lock("wait"), lock("hold")]);
}
