//! Something is given back while the server is away for longer than what was sent once is sent again.

use std::time::Duration;

use fastrand::Rng;

use super::calls::{Ask, Call, Give};
use super::chance::{chance, millis};
use super::faults::LinkFault;
use super::settings::Settings;
use super::{Event, What};

/// A client can't reach the server for so long, and what it sends at last, for the first time, is lost as well. Drawn apart.
pub(super) fn for_long(seed: u64, settings: &mut Settings, events: &mut Vec<Event>) {
    let rng = &mut Rng::with_seed(seed ^ 0x6177_6179_0000_0000);
    if !chance(rng, 2) {
        return;
    }
    let object = settings.one_more_semaphore(1);
    let place = rng.usize(..settings.clients);
    let begins = millis(rng, 1000..6000);
    let lasts = Duration::from_secs(rng.u64(305..345));
    settings.healing = settings
        .healing
        .max(begins + lasts + Duration::from_secs(5));
    let keeps = Call {
        ask: Ask::Wait,
        give: Give::Drop,
        hold: millis(rng, 600..3000),
        ..Call::looking_in(object)
    };
    let before = begins - Duration::from_millis(500);
    let lost = LinkFault::CutRequest(Duration::ZERO);
    for (at, what) in [
        (before, What::Call(place, keeps)),
        (begins, What::Link(place, LinkFault::Refuse(lasts))),
        (begins + millis(rng, 1..2000), What::Link(place, lost)),
    ] {
        events.push(Event { at, what });
    }
}
