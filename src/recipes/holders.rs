//! A semaphore or lock of the recipes as the queue sees it; and the pages of the list of its holders.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use super::call::{Call, Want};
use super::settings::{Layout, Settings};
use crate::api::Holder;
use crate::engine::request::Script;
use crate::lua;
use crate::queue::{Grant, Held, Primitive};
use crate::transport::jittered;

static TIMES: LazyLock<Script> = LazyLock::new(|| Script::new(lua::TIMES));
static SET: LazyLock<Script> = LazyLock::new(|| Script::new(lua::SET));
static SLOTS: LazyLock<Script> = LazyLock::new(|| Script::new(lua::SLOTS));

/// The recipes as a primitive of the queue.
pub(super) struct Recipes;

impl Primitive for Recipes {
    const KIND: &'static str = "recipe";
    const WAIT: &'static str = "acquire";
    const MOST_ASKED: usize = 256;
    type Want = Want;
    type Call = Call;
    type Held = Holders;

    fn give_back(grant: Grant<Want>) -> Call {
        Call::GiveBack(grant.ticket)
    }

    /// No id is given out twice.
    fn give_back_unknown(grant: Grant<Want>) -> Option<Call> {
        Some(Call::GiveBack(grant.ticket))
    }
}

/// Nothing is known here of what is held: callers have the ids.
pub(super) struct Holders {
    settings: Settings,
    header: Arc<str>,
}

impl Holders {
    pub(super) fn new(settings: Settings) -> Self {
        Holders {
            header: settings.header().into(),
            settings,
        }
    }
}

/// The script that carries calls out.
pub(super) fn script(layout: Layout) -> &'static LazyLock<Script> {
    match layout {
        Layout::Timestamp | Layout::Fair => &TIMES,
        Layout::Set => &SET,
        Layout::Slots | Layout::Lock => &SLOTS,
    }
}

impl Held<Recipes> for Holders {
    fn header(&mut self, _: &mut dyn Iterator<Item = Want>) -> Arc<str> {
        Arc::clone(&self.header)
    }

    fn lease_time(&self, want: Want) -> Duration {
        self.settings.sure_lease(Duration::from_millis(want.lasts))
    }

    fn pace(&self) -> Option<Duration> {
        Some(jittered(self.settings.check_interval, 0.75, 1.0))
    }
}

/// Some of the holders.
#[derive(Debug, PartialEq)]
pub(super) struct Page {
    pub(super) holders: Vec<Holder>,
    /// Where the next page goes on; `None`: it was the last.
    pub(super) next: Option<Arc<str>>,
}

impl Page {
    /// Where the first one begins.
    pub(super) const START: &'static str = "0";

    /// From the answer of the script; `None` for what it never says.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (next, holders) = text.split_once(';').unwrap_or((text, ""));
        let holders = holders.split(';').filter(|holder| !holder.is_empty());
        Some(Page {
            holders: holders.map(read_holder).collect::<Option<_>>()?,
            next: (next != Self::START).then(|| next.into()),
        })
    }
}

fn read_holder(text: &str) -> Option<Holder> {
    let mut words = text.split(',');
    let (id, left, slot) = (words.next()?, words.next()?, words.next()?);
    let (left, slot): (f64, u32) = (left.parse().ok()?, slot.parse().ok()?);
    Some(Holder {
        id: read_text(id)?,
        // A cast ends at the largest there is.
        remaining: (left >= 0.0).then_some(Duration::from_millis(left as u64)),
        slot: (slot > 0).then_some(slot),
    })
}

/// A text as it is, or in hexadecimal digits where it is no word. Bytes that are no UTF-8 are replaced.
fn read_text(word: &str) -> Option<String> {
    let Some(digits) = word.strip_prefix('=') else {
        return Some(word.to_owned());
    };
    let pairs = digits.as_bytes().chunks(2);
    let bytes = pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
    let bytes: Vec<u8> = bytes.collect::<Option<_>>()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read() {
        let read = Page::read("17;a-b,250,0;=,-1,3;=c3a42020ff,1e300,0").expect("it is read");
        assert_eq!(read.next.as_deref(), Some("17"));
        let ids: Vec<_> = read.holders.iter().map(Holder::id).collect();
        assert_eq!(ids, ["a-b", "", "ä  \u{fffd}"]);
        assert_eq!(read.holders[0].remaining, Some(Duration::from_millis(250)));
        let second = &read.holders[1];
        assert_eq!((second.remaining, second.slot), (None, Some(3)));
        let empty = Page::read("0").expect("it is read");
        assert!(empty.next.is_none() && empty.holders.is_empty());
        for nonsense in ["0;id", "0;id,1", "0;=xy,1,1", "0;id,1,x"] {
            assert_eq!(Page::read(nonsense), None);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text: String) {
            let _ = Page::read(&text);
        }
    }
}
