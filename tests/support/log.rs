//! The log of the code under test, recorded for the whole test program.

use std::fmt::{self, Write as _};
use std::sync::{Mutex, MutexGuard, OnceLock, mpsc};
use std::time::Duration;

use redisson_semaphore::Client;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// One event: its level, its message and its fields as text.
#[derive(Debug, Clone)]
pub struct Line {
    pub level: Level,
    pub text: String,
}

static LINES: Mutex<Vec<Line>> = Mutex::new(Vec::new());
static STARTED: OnceLock<()> = OnceLock::new();
static CURIOUS: Mutex<Vec<Client>> = Mutex::new(Vec::new());

/// The text that is recorded when a client's figures can't be read during an event.
pub const LOCKED: &str = "something is locked at the event";

/// Reads the figures of this client during each event from now on. No event may be logged under a lock that this needs.
pub fn ask_at_each(client: Client) {
    CURIOUS.lock().expect("nobody panics here").push(client);
}

/// Records the log from now on.
pub fn record() {
    STARTED.get_or_init(|| {
        tracing::subscriber::set_global_default(Recorder).expect("there is no other one");
    });
}

/// The lines so far that contain `text`, such as a server's address, at `level` and above.
pub fn lines(level: Level, text: &str) -> Vec<Line> {
    let wanted = |line: &&Line| line.level <= level && line.text.contains(text);
    lock().iter().filter(wanted).cloned().collect()
}

fn lock() -> MutexGuard<'static, Vec<Line>> {
    LINES.lock().expect("no panic under this lock")
}

struct Recorder;

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("redisson_semaphore")
    }

    fn event(&self, event: &Event<'_>) {
        let curious = CURIOUS.lock().expect("nobody panics here").clone();
        for client in curious {
            let (tell, told) = mpsc::channel();
            std::thread::spawn(move || {
                let _ = client.stats();
                let _ = tell.send(());
            });
            if told.recv_timeout(Duration::from_secs(5)).is_err() {
                let message = event.metadata().name();
                let text = format!("{LOCKED} {message}");
                lock().push(Line {
                    level: Level::ERROR,
                    text,
                });
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        lock().push(Line {
            level: *event.metadata().level(),
            text: text.0,
        });
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, "{}={value:?} ", field.name()).expect("a String takes everything");
    }
}
