//! The contract suites over one server.

use crate::clients::{Clients, Kind, Leased, Locks};
use crate::layouts::Layout;
use redisson_semaphore::Protocol::{self, Resp2, Resp3};

/// Guards hold their permits under leases where they are `watched`.
async fn semaphores(watched: bool) -> Clients {
    Clients::set(|builder| builder.watch_semaphores(watched)).await
}

contract_suite!(redis_semaphore, semaphores(true).await);
contract_suite!(unwatched, semaphores(false).await);
contract_suite!(by_resp3, Clients::start(Resp3).await);

async fn locks(kind: Kind, protocol: Protocol) -> Locks {
    Locks(kind, Clients::start(protocol).await)
}

lock_suite!(rlock, locks(Kind::Plain, Resp2).await);
lock_suite!(fenced_lock, locks(Kind::Fenced, Resp2).await);
lock_suite!(lock_by_resp3, locks(Kind::Fenced, Resp3).await);
lock_suite!(fair_lock, locks(Kind::Fair, Resp2).await);
lock_suite!(writers, locks(Kind::Writer, Resp2).await);
// Readers do not keep each other out, set the end of all holds, or are forced out by a writer.
lock_suite!(readers, locks(Kind::Reader, Resp2).await; each reentrant);
// It is not reentrant, and lasts for ten seconds at a time.
lock_suite!(string_lock, locks(Kind::StringLock, Resp2).await; each exclusive);

async fn leased(layout: Option<Layout>, protocol: Protocol) -> Leased {
    Leased(layout, Clients::start(protocol).await)
}

leased_suite!(permit_expirable, leased(None, Resp2).await);
leased_suite!(permit_expirable_by_resp3, leased(None, Resp3).await);
expiring_suite!(permit_expirable_expiring, leased(None, Resp2).await);

/// Both suites of a layout, or that one alone that is for permits without an end.
macro_rules! layouts {
    ($($suite:ident $(, $expiring:ident)?: $layout:ident;)*) => {$(
        leased_suite!($suite, leased(Some(Layout::$layout), Resp2).await);
        $(expiring_suite!($expiring, leased(Some(Layout::$layout), Resp2).await);)?
    )*};
}

layouts! {
    timestamp, timestamp_expiring: Timestamp;
    timestamp_in_seconds, timestamp_in_seconds_expiring: TimestampInSeconds;
    fair, fair_expiring: Fair;
    fair_under_lock, fair_under_lock_expiring: FairUnderLock;
    fair_with_tokens, fair_with_tokens_expiring: FairWithTokens;
    set: Set;
    slots, slots_expiring: Slots;
}
