//! Free permits are announced to JVMs again some time after a release, as a JVM does not pass a wake-up on.

use std::time::Duration;

use tokio::time::Instant;

/// How long after the release.
const TIMES: [Duration; 5] = [
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
];
/// Without a listener it begins here: a JVM may subscribe anew.
const UNHEARD: usize = 2;

/// The announcements of one object.
#[derive(Default)]
pub(super) struct Announcements {
    /// Which of the times comes next, and when.
    next: Option<(usize, Instant)>,
    /// The next batch carries one.
    pub(super) due: bool,
    /// JVMs have listened: one that does not now may be connecting anew.
    jvms_seen: bool,
}

/// The answer to a batch, as far as it matters here.
pub(super) struct Found {
    /// How much was free by the answer before.
    pub(super) before: Option<i64>,
    pub(super) available: i64,
    /// How many JVMs listen, where that was seen.
    pub(super) jvms: Option<u32>,
    /// The batch may have added permits; it has announced them.
    pub(super) added: bool,
    pub(super) announced: bool,
}

impl Announcements {
    pub(super) fn learn(&mut self, found: &Found, now: Instant) {
        self.jvms_seen |= found.jvms.is_some_and(|jvms| jvms > 0);
        let more = |before: i64| found.available > before && found.jvms != Some(0);
        if found.available <= 0 {
            self.next = None;
        } else if found.added || found.before.is_some_and(more) && self.next.is_none() {
            let step = if found.jvms == Some(0) { UNHEARD } else { 0 };
            self.next = Some((step, now + TIMES[step]));
        } else if found.announced && found.before.is_some_and(|before| found.available < before) {
            // It is of use: others may be asleep still.
            self.next = Some((0, now + TIMES[0]));
        }
    }

    pub(super) fn tick(&mut self, now: Instant) {
        if let Some((step, _)) = self.next.take_if(|(_, at)| *at <= now) {
            self.due = true;
            let later = TIMES.get(step + 1);
            self.next = later.map(|later| (step + 1, now + (*later - TIMES[step])));
        }
    }

    pub(super) fn alarm(&self) -> Option<Instant> {
        self.next.map(|(_, at)| at)
    }

    /// The object stays for them though its last handle has gone.
    pub(super) fn keep_object(&self) -> bool {
        self.jvms_seen && self.next.is_some()
    }

    pub(super) fn end(&mut self) {
        (self.next, self.due) = (None, false);
    }
}
