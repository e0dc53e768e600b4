//! The contract suites over a cluster, with sharded messages and with plain ones.

use crate::clients::{Clients, Kind, Leased, Locks};
use crate::layouts::Layout;
use redisson_semaphore::ShardedPubSub::{Auto, Off};

async fn leased(layout: Option<Layout>) -> Leased {
    Leased(layout, Clients::of_cluster(Auto).await)
}

contract_suite!(sharded, Clients::of_cluster(Auto).await);
contract_suite!(plain, Clients::of_cluster(Off).await);
lock_suite!(
    sharded_lock,
    Locks(Kind::Plain, Clients::of_cluster(Auto).await)
);
leased_suite!(permits, leased(None).await);
expiring_suite!(permits_expiring, leased(None).await);
leased_suite!(timestamp, leased(Some(Layout::Timestamp)).await);
leased_suite!(fair, leased(Some(Layout::Fair)).await);
leased_suite!(fair_under_lock, leased(Some(Layout::FairUnderLock)).await);
leased_suite!(fair_with_tokens, leased(Some(Layout::FairWithTokens)).await);
leased_suite!(set, leased(Some(Layout::Set)).await);
leased_suite!(slots, leased(Some(Layout::Slots)).await);
