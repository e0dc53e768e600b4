//! Clients that want the same lock all the time: each gets its turn, and alone none pays for that.

use std::time::Duration;

use crate::support::crowd::{Crowd, Way};
use crate::support::proxy::Proxy;
use crate::support::server::RedisServer;
use crate::support::waiters::until;
use futures::future::join_all;
use redisson_semaphore::Client;

const LIMIT: Duration = Duration::from_secs(30);

async fn connect(url: String) -> Client {
    let client = Client::connect(&url).await;
    client.expect("the server runs")
}

/// Two clients side by side until `grants` turns are over; each has had at least 0.3 of an equal share.
async fn two_share(callers: usize, way: Way, hold: Duration, grants: usize) {
    let server = RedisServer::start().await;
    let clients = [connect(server.url()).await, connect(server.url()).await];
    let crowds = clients
        .each_ref()
        .map(|client| Crowd::of_locks(client, callers, way, hold));
    let all = || crowds.iter().map(Crowd::served).sum::<usize>();
    let what = format!("{grants} grants, {way:?}, {callers} callers");
    until(&what, LIMIT, async || all() >= grants).await;
    for crowd in &crowds {
        assert!(
            crowd.served() * 20 >= grants * 3,
            "{} of {} grants; {what}, held for {hold:?}",
            crowd.served(),
            all(),
        );
    }
    for crowd in crowds {
        let tally = crowd.stop().await;
        let (count, longest) = (tally.count(), tally.max());
        println!("{what}, {hold:?}: {count} grants, longest wait {longest:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_with_several_callers_share() {
    let hold = Duration::from_millis(1);
    for way in [
        Way::Lock,
        Way::Timed,
        Way::Leased,
        Way::Reentrant,
        Way::Fenced,
    ] {
        two_share(2, way, hold, 200).await;
    }
    two_share(4, Way::Lock, hold, 200).await;
    two_share(4, Way::Lock, Duration::ZERO, 2000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_with_one_caller_share() {
    two_share(1, Way::Lock, Duration::ZERO, 2000).await;
    two_share(1, Way::Lock, Duration::from_micros(1500), 200).await;
    two_share(1, Way::Timed, Duration::from_micros(1500), 200).await;
    two_share(1, Way::Lock, Duration::from_millis(20), 50).await;
}

/// How many scripts a grant costs a client that is alone.
async fn scripts_of_one_alone(callers: usize, hold: Duration, grants: usize) -> f64 {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(&server).await;
    let client = connect(proxy.url()).await;
    let crowd = Crowd::of_locks(&client, callers, Way::Lock, hold);
    until("they are at work", LIMIT, async || crowd.served() >= 20).await;
    let (before, scripts) = (crowd.served(), proxy.scripts());
    until("grants", LIMIT, async || crowd.served() >= before + grants).await;
    let (done, sent) = (crowd.served() - before, proxy.scripts() - scripts);
    crowd.stop().await;
    sent as f64 / done as f64
}

/// A turn travels with the unlock before it, and who comes behind a holder of the same client does not ask.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_alone_sends_no_more_than_it_must() {
    let hold = Duration::from_millis(1);
    for (callers, hold, most) in [
        (1, Duration::ZERO, 2.1),
        (1, hold, 2.1),
        (2, hold, 1.4),
        (16, hold, 1.4),
        (16, Duration::ZERO, 1.4),
    ] {
        let scripts = scripts_of_one_alone(callers, hold, 200).await;
        println!("{callers} callers, {hold:?}: {scripts}");
        assert!(scripts <= most, "{callers} callers, {hold:?}: {scripts}");
    }
}

/// A client to which everything comes later than a lock is left free for others at first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_far_away_has_its_turns() {
    let server = RedisServer::start().await;
    let near = connect(server.url()).await;
    let way = Proxy::start(&server).await;
    way.set_round_trip(Duration::from_millis(30));
    let far = connect(way.url()).await;
    for hold in [Duration::ZERO, Duration::from_millis(2)] {
        let near = Crowd::of_locks(&near, 4, Way::Lock, hold);
        until("they are at work", LIMIT, async || near.served() > 20).await;
        let far = Crowd::of_locks(&far, 1, Way::Lock, hold);
        until("it has its turns", LIMIT, async || far.served() >= 10).await;
        println!("{hold:?}: {} of the near ones", near.served());
        far.stop().await;
        near.stop().await;
    }
}

/// One question answers all who were there when it was sent, however many they are.
#[tokio::test]
async fn who_does_not_wait_is_answered_with_others() {
    const CALLERS: usize = 5000;
    let server = RedisServer::start().await;
    let holder = connect(server.url()).await.lock("door");
    let way = Proxy::start(&server).await;
    way.set_round_trip(Duration::from_millis(20));
    let client = connect(way.url()).await;
    for held in [true, false] {
        if held {
            holder.lock().await.unwrap();
        }
        let locks: Vec<_> = (0..CALLERS).map(|_| client.lock("door")).collect();
        let before = way.scripts();
        let answers = join_all(locks.iter().map(|lock| lock.try_lock())).await;
        let sent = way.scripts() - before;
        assert!(sent <= 6, "{sent} scripts");
        let mut taken = Vec::new();
        for (answer, lock) in answers.into_iter().zip(&locks) {
            taken.extend(answer.unwrap().then_some(lock));
        }
        assert_eq!(taken.len(), usize::from(!held));
        let holder = if held { &holder } else { taken[0] };
        holder.unlock().await.unwrap();
    }
}
