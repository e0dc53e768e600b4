//! What is known of a semaphore here, and what others are told of it.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::crowd::{Crowd, Fared};
use super::nudge::Leavings;
use super::record::Record;
use crate::engine::Core;
use crate::engine::keys::Keys;
use crate::engine::primitive::Line;
use crate::engine::request::Script;
use crate::engine::turns::Place;
use crate::lease::Lease;
use crate::lua;

static BATCH: LazyLock<Script> = LazyLock::new(|| Script::new(lua::SEMAPHORE));

/// What is known of a semaphore here.
pub(super) struct Permits {
    pub(super) keys: Keys,
    /// For settings, names and numbers.
    pub(super) core: Arc<Core>,
    /// In the line of all clients.
    pub(super) place: Place,
    pub(super) crowd: Crowd,
    /// The counter behind the last batch.
    pub(super) available: i64,
    /// When the last batch was sent that has been answered.
    pub(super) seen: Option<Instant>,
    /// What is to be thought of when those have been taken out who were served.
    pub(super) behind: Behind,
    /// The next look has no message for a reason; so has the one that is under way.
    pub(super) unprompted: bool,
    pub(super) looking_unprompted: bool,
    pub(super) leavings: Leavings,
    /// Tells a series of nudges that is under way.
    pub(super) left_more: Arc<Notify>,
    /// What guards have on record.
    pub(super) record: Record,
    pub(super) news: Option<News>,
}

/// What others are told of when nothing is locked any more.
#[derive(Default)]
pub(super) struct News {
    /// Permits are on record here: it is seen to that they stay, and that those of the dead come back.
    pub(super) recorded: bool,
    /// What guards held, and have lost.
    pub(super) lost: Option<Lease>,
    /// Permits were announced, and nobody listened.
    pub(super) unheard: bool,
    /// Permits have been left to others, who may have to be nudged.
    pub(super) left: bool,
}

/// What has led to the last change of those who wait.
#[derive(Default)]
pub(super) enum Behind {
    #[default]
    Nothing,
    /// Those who asked have fared so, and were held back from what is free, or not.
    Answer(Fared, bool),
    /// A release of so many permits served some, what is known of others being so old; so old it may become.
    HandOver(u32, Duration, Duration),
}

impl Permits {
    /// The client's one line of the semaphore with these names.
    pub(super) fn line(core: &Arc<Core>, keys: Keys) -> Arc<Line<Self>> {
        let object = Arc::clone(keys.object());
        Line::at(core, &object, || {
            let permits = Permits::new(Arc::clone(core), keys.clone());
            (keys, &BATCH, permits)
        })
    }

    fn new(core: Arc<Core>, keys: Keys) -> Self {
        let place = Place::of(&keys, core.config.safety_interval);
        let record = Record::behind(core.watchdog.takes_up(keys.object()));
        Permits {
            place: place.expect("clients of a semaphore take turns"),
            keys,
            core,
            crowd: Crowd::new(),
            available: 0,
            seen: None,
            behind: Behind::Nothing,
            unprompted: false,
            looking_unprompted: false,
            leavings: Leavings::default(),
            left_more: Arc::default(),
            record,
            news: None,
        }
    }

    /// From now on the callers of this client take what they can get.
    pub(super) fn without_turns(&mut self) {
        self.place.switch_off();
    }

    pub(super) fn news(&mut self) -> &mut News {
        self.news.get_or_insert_default()
    }

    pub(super) fn has_lost(&mut self, lost: Option<Lease>) {
        if lost.is_some() {
            self.news().lost = lost;
        }
    }
}
