//! The semaphore with ids in trouble: commands that are forbidden, replies that are lost, callers and clients that go.

mod support;

use std::pin::pin;
use std::time::Duration;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, Effect, Error, Held, RPermitExpirableSemaphore, Result};
use support::clients::{KINDS, LIMIT, NEVER, builder, connect, limited};
use support::polls::{poll_once, poll_times};
use support::proxy::{Fate, LOST_REPLIES, Proxy};
use support::refusals::assert_clear;
use support::server::RedisServer;
use support::snapshot::{Snapshot, snapshot, snapshot_all};
use support::waiters::{channel, until, until_subscribers};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Over before anything happens.
const SHORT: Duration = Duration::from_millis(30);
const HOUR: Duration = Duration::from_secs(3600);

fn permits_key(name: &str) -> String {
    format!("{{{name}}}:timeout")
}

fn record(name: &str, client: &Client) -> String {
    format!("redisson_sc_leased_once:{{{name}}}:{}", client.id())
}

fn ids(held: &[Held]) -> Vec<&str> {
    held.iter().map(Held::id).collect()
}

/// The counter, and how many permits are held: together always as many as there are.
async fn stored(control: &mut MultiplexedConnection, name: &str) -> (i64, i64) {
    let (available, held): (Option<i64>, i64) = redis::pipe()
        .atomic()
        .get(name)
        .zcard(permits_key(name))
        .query_async(control)
        .await
        .unwrap();
    (available.unwrap_or(0), held)
}

/// A caller in a task that waits when this returns.
async fn waiter(
    control: &mut MultiplexedConnection,
    semaphore: &RPermitExpirableSemaphore,
) -> JoinHandle<Result<Held>> {
    let call = semaphore.clone();
    let task = tokio::spawn(async move { call.acquire().await });
    until_subscribers(control, &channel(semaphore.name()), 1).await;
    // Answered behind the waiter's own questions.
    semaphore.available_permits().await.unwrap();
    task
}

async fn ended(task: JoinHandle<Result<Held>>) -> Result<Held> {
    timeout(LIMIT, task).await.expect("it is not told").unwrap()
}

/// What is told and what has happened agree, whatever the server forbids, and who is refused leaves nothing behind.
#[tokio::test]
async fn a_refusal_leaves_everything_as_it_was() {
    for rules in [
        "~* &* +@all -publish",
        "~* resetchannels &other +@all",
        "~* &* +@all -set",
        "~* &* +@all -get",
        "~* &* +@all -del",
        "~* &* +@all -time",
        "~* &* +@all -incrby",
        "~* &* +@all -pttl",
        "~* &* +@all -pexpire",
        "~* &* +@all -zadd",
        "~* &* +@all -zrem",
        "~* &* +@all -zscore",
        "~* &* +@all -zmscore",
        "~* &* +@all -zcount",
        "~* &* +@all -zrangebyscore",
        "~* &* +@all -publish -del",
        "~* &* +@all -evalsha -eval",
        "~refused ~redisson_sc* &* +@all",
        "~{refused}* ~redisson_sc* &* +@all",
    ] {
        let (server, client) = limited(rules).await;
        let mut control = server.connection().await;
        let jobs = client
            .permit_expirable_semaphore("refused")
            .with_lease(HOUR);
        let helper = connect(server.url())
            .await
            .permit_expirable_semaphore("refused");
        let mine = record("refused", &client);
        let mut refused = 0;
        for number in 0..10 {
            let _: () = control.del("refused").await.unwrap();
            let _: () = control.del(permits_key("refused")).await.unwrap();
            helper.try_set_permits(3).await.unwrap();
            // One caller alone goes a shorter way where it does not expire.
            if number < 8 {
                helper.expire(HOUR, None).await.unwrap();
            }
            let held = helper.acquire_many(2).await.unwrap();
            // One permit has ended, and is to be taken out by whoever comes, unless he only releases.
            helper
                .update_lease_time(held[0].id(), Some(Duration::from_millis(1)))
                .await
                .unwrap();
            until("it has ended", LIMIT, async || {
                let (_, end): (Vec<u8>, u64) = control
                    .zrange_withscores::<_, Vec<(Vec<u8>, u64)>>(permits_key("refused"), 0, 0)
                    .await
                    .unwrap()[0]
                    .clone();
                let (seconds, micros): (u64, u64) =
                    redis::cmd("TIME").query_async(&mut control).await.unwrap();
                seconds * 1000 + micros / 1000 > end
            })
            .await;
            let both = async |control: &mut MultiplexedConnection| {
                [
                    snapshot(control, "refused").await,
                    snapshot(control, &permits_key("refused")).await,
                ]
            };
            let before = both(&mut control).await;
            let old = snapshot(&mut control, &mine).await;
            let (error, expected) = match number {
                0 => (jobs.try_acquire().await.map(drop).err(), (1, 2)),
                1 => (
                    jobs.try_acquire_many(3)
                        .await
                        .map(|none| assert!(none.is_none()))
                        .err(),
                    (2, 1),
                ),
                2 => (jobs.try_release(held[1].id()).await.map(drop).err(), (2, 1)),
                3 => (jobs.release_many(&[held[1].id()]).await.err(), (2, 1)),
                4 => (jobs.set_permits(5).await.err(), (4, 1)),
                5 => (jobs.available_permits().await.map(drop).err(), (2, 1)),
                6 => {
                    let (one, two) =
                        tokio::join!(jobs.try_acquire(), jobs.try_release(held[1].id()));
                    let error = one.as_ref().err().or(two.as_ref().err()).cloned();
                    // They may travel together or not, and be refused together or not.
                    if one.is_ok() != two.is_ok() {
                        refused += 1;
                        let held = stored(&mut control, "refused").await;
                        assert!(held.0 + held.1 == 3, "{rules}: {held:?}");
                        continue;
                    }
                    (error, (2, 1))
                }
                7 => (
                    jobs.update_lease_time(held[1].id(), None)
                        .await
                        .map(drop)
                        .err(),
                    (2, 1),
                ),
                // What has ended stays where it is, unless that way is closed.
                8 if rules.contains("-incrby") => {
                    (jobs.try_acquire().await.map(drop).err(), (1, 2))
                }
                8 => (jobs.try_acquire().await.map(drop).err(), (0, 3)),
                _ => (jobs.try_release(held[1].id()).await.map(drop).err(), (2, 1)),
            };
            let what = format!("{rules}: call {number} told {error:?}");
            let Some(error) = error else {
                assert_eq!(stored(&mut control, "refused").await, expected, "{what}");
                continue;
            };
            refused += 1;
            assert!(matches!(error, Error::PermissionDenied { .. }), "{what}");
            assert_clear(&error, "refused");
            let close = |one: &Snapshot, two: &Snapshot| one.matches(two, LIMIT);
            let after = both(&mut control).await;
            assert!(
                close(&after[0], &before[0]) && close(&after[1], &before[1]),
                "{what}: {after:?} {before:?}"
            );
            // The record says that it was refused where it could not be taken back.
            let record = snapshot(&mut control, &mine).await;
            let told = rules.contains("-del")
                && record.value.iter().any(|text| text.contains(" refused "));
            assert!(close(&record, &old) || told, "{what}: {record:?}");
        }
        // One caller alone goes the longer way then.
        let harmless = ["-del", "-zscore", "-incrby"]
            .iter()
            .any(|rule| rules.ends_with(rule));
        assert!(refused > 0 || harmless, "{rules} forbids nothing");
    }
}

/// What the documentation says that a user needs is enough.
#[tokio::test]
async fn a_user_with_what_is_documented_can_do_all() {
    let (server, client) = limited(
        "resetchannels ~mine ~{mine}:timeout ~redisson_sc* &redisson_sc:* \
         +eval +evalsha +get +set +incrby +time +pttl +pexpire +zadd +zrem +zscore +zmscore +zcount +zcard +zrank \
         +zrange +zrangebyscore +del +pubsub +publish +subscribe +unsubscribe +ping",
    )
    .await;
    let mut control = server.connection().await;
    let jobs = client.permit_expirable_semaphore("mine");
    assert_eq!(jobs.try_set_permits(2).await, Ok(true));
    let _: bool = control.pexpire("mine", 1_000_000).await.unwrap();
    let held = jobs.acquire_many(2).await.unwrap();
    let waits = waiter(&mut control, &jobs).await;
    jobs.release(held[0].id()).await.unwrap();
    let one = ended(waits).await.unwrap();
    assert_eq!(jobs.update_lease_time(one.id(), Some(HOUR)).await, Ok(true));
    jobs.lease_time(one.id()).await.unwrap();
    assert_eq!(jobs.holders().await.unwrap().len(), 2);
    assert_eq!(
        jobs.try_release_many(&[one.id(), held[1].id()]).await,
        Ok(2)
    );
    let guard = jobs
        .clone()
        .with_lease(Duration::from_millis(300))
        .permit()
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert!(!guard.is_lost() && guard.release().await.unwrap());
    jobs.set_permits(5).await.unwrap();
    jobs.add_permits(1).await.unwrap();
    assert_eq!(jobs.permits().await, Ok(6));
    assert_eq!(jobs.release_all().await, Ok(0));
    assert_eq!(jobs.delete().await, Ok(true));
    client.shutdown().await.unwrap();
}

#[tokio::test]
async fn who_may_not_listen_is_told() {
    let (server, client) = limited("~* &* +@all -subscribe").await;
    let mut control = server.connection().await;
    let jobs = client.permit_expirable_semaphore("deaf");
    jobs.try_set_permits(1).await.unwrap();
    let held = jobs.acquire().await.unwrap();
    let error = timeout(LIMIT, jobs.acquire())
        .await
        .expect("it ends")
        .unwrap_err();
    assert!(matches!(error, Error::PermissionDenied { .. }), "{error}");
    jobs.release(held.id()).await.unwrap();
    assert_eq!(stored(&mut control, "deaf").await, (1, 0));
}

/// Every step on its way to the server and back, by what it answers and leaves.
async fn sequence(url: String, name: &str) -> Vec<String> {
    let client = builder(url)
        .response_timeout(Duration::from_millis(60))
        .connect()
        .await
        .unwrap();
    let jobs = client.permit_expirable_semaphore(name);
    let leased = jobs.clone().with_lease(HOUR);
    let mut said = Vec::new();
    let mut say = |answer: String| said.push(answer);
    say(format!("{:?}", jobs.try_set_permits(5).await));
    say(format!("{:?}", jobs.try_set_permits(6).await));
    let one = jobs.acquire().await.unwrap();
    let some = leased.try_acquire_many(3).await.unwrap().unwrap();
    say(format!("{:?}", jobs.try_acquire_many(2).await));
    say(format!("{:?}", leased.try_acquire_many_for(2, SHORT).await));
    say(format!(
        "{:?}",
        jobs.update_lease_time(one.id(), Some(HOUR)).await
    ));
    say(format!("{:?}", jobs.available_permits().await));
    say(format!("{:?}", jobs.try_release(one.id()).await));
    say(format!("{:?}", jobs.try_release(one.id()).await));
    say(format!("{:?}", jobs.release_many(&ids(&some[1..])).await));
    let (two, three, released) = tokio::join!(
        jobs.acquire(),
        leased.acquire(),
        jobs.try_release(some[0].id())
    );
    say(format!("{released:?}"));
    say(format!("{:?}", jobs.set_permits(7).await));
    say(format!("{:?}", jobs.add_permits(1).await));
    say(format!("{:?}", jobs.expire(HOUR, None).await));
    say(format!("{:?}", jobs.holders().await.unwrap().len()));
    say(format!(
        "{:?}",
        jobs.try_release_many(&[two.unwrap().id(), three.unwrap().id()])
            .await
    ));
    let guard = leased.permit().await.unwrap();
    say(format!("{:?}", guard.release().await));
    drop(leased.permit().await.unwrap());
    jobs.acquire().await.unwrap();
    client.shutdown().await.unwrap();
    said
}

/// A server that knows the scripts, and a proxy in front of it.
async fn start() -> (RedisServer, Proxy) {
    let server = RedisServer::start().await;
    sequence(server.url(), "warm-up").await;
    let proxy = Proxy::start(&server).await;
    (server, proxy)
}

/// Each script call in turn is disturbed: its reply is lost, or it never arrives, or it arrives behind its repetition.
#[tokio::test]
async fn every_call_takes_effect_once_whatever_is_lost() {
    let (server, proxy) = start().await;
    let mut control = server.connection().await;
    let undisturbed = sequence(proxy.url(), "undisturbed").await;
    let scripts = proxy.scripts();
    assert!(scripts >= 18, "{scripts} script calls");
    for fate in LOST_REPLIES
        .into_iter()
        .chain([Fate::LoseRequest, Fate::HoldRequest])
    {
        for n in 1..=scripts {
            let name = format!("{fate:?}-{n}");
            let struck = proxy.struck();
            proxy.at_script(n, fate);
            let seen = timeout(LIMIT, sequence(proxy.url(), &name)).await;
            let seen = seen.unwrap_or_else(|_| panic!("{name} hangs"));
            assert_eq!(seen, undisturbed, "{name}");
            assert_eq!(stored(&mut control, &name).await, (7, 1), "{name}");
            // Calls made at the same time may travel together or not.
            assert!(proxy.struck() > struck || n > 11, "{name} was not hit");
            proxy.clear_fates();
            if fate == Fate::HoldRequest && proxy.struck() > struck {
                proxy.deliver(1).await;
                assert_eq!(
                    stored(&mut control, &name).await,
                    (7, 1),
                    "{name}: it arrives late"
                );
            }
        }
    }
}

/// The caller's time is over before the server answers: it is told the truth, and what it was granted comes back.
#[tokio::test]
async fn an_outcome_that_nobody_learns_in_time() {
    let (server, proxy) = start().await;
    let mut control = server.connection().await;
    let client = builder(proxy.url())
        .response_timeout(Duration::from_millis(60))
        .retry_window(Duration::from_millis(300))
        .connect_timeout(Duration::from_millis(300))
        .connect()
        .await
        .unwrap();
    for lose in [Proxy::mute, Proxy::blackhole] {
        let jobs = client.permit_expirable_semaphore("unknown");
        jobs.try_set_permits(5).await.unwrap();
        let held = jobs.acquire_many(2).await.unwrap();
        lose(&proxy);
        for error in [
            timeout(LIMIT, jobs.acquire_many(2))
                .await
                .expect("it ends")
                .unwrap_err(),
            timeout(LIMIT, jobs.release(held[0].id()))
                .await
                .expect("it ends")
                .unwrap_err(),
        ] {
            // The second one waits behind the first, and may not have been sent.
            assert!(
                matches!(
                    error,
                    Error::OutcomeUnknown { .. } | Error::Unavailable { .. }
                ),
                "{error}"
            );
        }
        proxy.clear();
        // What was granted to nobody has come back; a release that was never sent is the caller's to repeat.
        until("it is settled", LIMIT, async || {
            let known = jobs.try_release(held[0].id()).await;
            known.is_ok() && stored(&mut control, "unknown").await == (4, 1)
        })
        .await;
        jobs.release(held[1].id()).await.unwrap();
        assert_eq!(stored(&mut control, "unknown").await, (5, 0));
    }
    client.shutdown().await.unwrap();
}

/// Dropped after 0, 1, 2... polls; a release that was begun is carried out, and nothing is taken along.
#[tokio::test]
async fn dropped_after_every_number_of_polls() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    for operation in 0..5 {
        for polls in 0..100 {
            let name = format!("polls-{operation}-{polls}");
            let jobs = client.permit_expirable_semaphore(&name);
            jobs.try_set_permits(3).await.unwrap();
            let held = jobs.acquire().await.unwrap();
            let call = async {
                match operation {
                    0 => jobs.acquire_many(2).await.map(|held| held.len()),
                    1 => jobs
                        .try_acquire_many_for(3, SHORT)
                        .await
                        .map(|none| usize::from(none.is_some())),
                    2 => jobs.try_release(held.id()).await.map(usize::from),
                    3 => jobs
                        .permit()
                        .await
                        .map(|guard| guard.forget().id().len() / 32),
                    _ => jobs.permit().await.map(|_guard| 0),
                }
            };
            let answer = poll_times(call, polls).await;
            let expected = match (operation, answer.as_ref()) {
                (0, Some(_)) => (0, 3),
                (2, None) if polls == 0 => (2, 1),
                (2, _) => (3, 0),
                (3, Some(_)) => (1, 2),
                _ => (2, 1),
            };
            until(&format!("{name} is as it was"), LIMIT, async || {
                stored(&mut control, &name).await == expected
            })
            .await;
            if answer.is_some() {
                assert!(polls > 1, "the call never waits: nothing was tested");
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_call_left_alone_holds_nobody_up() {
    let server = RedisServer::start().await;
    let client = connect(server.url()).await;
    let jobs = client.permit_expirable_semaphore("alone");
    jobs.try_set_permits(100).await.unwrap();
    for polls in 1..5 {
        let mut taking = pin!(jobs.acquire());
        for _ in 0..polls {
            if poll_once(&mut taking).await.is_ready() {
                return;
            }
            tokio::task::yield_now().await;
        }
        let others = async {
            let held = jobs.acquire_many(3).await.unwrap();
            jobs.release_many(&ids(&held)).await.unwrap();
            assert!(jobs.exists().await.unwrap());
        };
        timeout(LIMIT, others).await.expect("others are held up");
        timeout(LIMIT, taking)
            .await
            .expect("it is answered")
            .unwrap();
    }
    assert_eq!(jobs.available_permits().await, Ok(96));
}

#[tokio::test]
async fn who_waits_hears_of_a_permit_while_its_connections_are_gone() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    let jobs = client.permit_expirable_semaphore("reconnect");
    jobs.try_set_permits(0).await.unwrap();
    for kinds in KINDS {
        let waits = waiter(&mut control, &jobs).await;
        support::clients::kill_and_release(&mut control, kinds, "reconnect", 1).await;
        ended(waits).await.unwrap();
    }
    assert_eq!(stored(&mut control, "reconnect").await, (0, 3));
}

#[tokio::test]
async fn shutdown_tells_those_who_wait_and_carries_out_what_is_owed() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    let jobs = client.permit_expirable_semaphore("shutdown");
    jobs.try_set_permits(3).await.unwrap();
    let held = jobs.acquire_many(2).await.unwrap();
    let guard = jobs.permit().await.unwrap();
    let waits = waiter(&mut control, &jobs).await;
    let timed = jobs.clone();
    let timed = tokio::spawn(async move { timed.try_acquire_for(NEVER).await });
    until("both wait", LIMIT, async || client.stats().waiting == 2).await;
    {
        let both = ids(&held);
        let mut release = pin!(jobs.release_many(&both));
        assert!(poll_once(&mut release).await.is_pending());
        drop(guard);
    }
    client.shutdown().await.unwrap();
    // Who waited may have been served before that.
    let told = [
        ended(waits).await,
        timeout(LIMIT, timed)
            .await
            .unwrap()
            .unwrap()
            .map(|held| held.expect("it waits on")),
    ];
    let served = told.iter().filter(|told| told.is_ok()).count();
    let (available, held) = stored(&mut control, "shutdown").await;
    assert_eq!(
        (available, held),
        (3 - served as i64, served as i64),
        "{told:?}"
    );
    for error in told.into_iter().filter_map(Result::err) {
        // Whose question was under way may have been granted something, which is given back.
        let told = matches!(error, Error::ShutDown { .. } | Error::OutcomeUnknown { .. });
        assert!(told, "{error}");
    }
    for error in [
        jobs.acquire().await.unwrap_err(),
        jobs.try_acquire().await.unwrap_err(),
        jobs.release("1234").await.unwrap_err(),
        jobs.available_permits().await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::ShutDown { .. }), "{error}");
    }
}

/// Guards that are dropped while the server is away: their releases are added up, and none is forgotten.
#[tokio::test]
async fn releases_that_nobody_waits_for_are_carried_out_in_the_end() {
    let (server, proxy) = start().await;
    let mut control = server.connection().await;
    let client = connect(proxy.url()).await;
    let jobs = client.permit_expirable_semaphore("owed");
    jobs.try_set_permits(4000).await.unwrap();
    let mut held = Vec::new();
    for _ in 0..4 {
        held.extend(jobs.acquire_many(1000).await.unwrap());
    }
    proxy.blackhole();
    for held in &held[..3000] {
        let mut release = pin!(jobs.release(held.id()));
        assert!(poll_once(&mut release).await.is_pending());
    }
    proxy.clear();
    until("all are carried out", LIMIT, async || {
        stored(&mut control, "owed").await == (3000, 1000)
    })
    .await;
    client.shutdown().await.unwrap();
    assert_eq!(
        stored(&mut control, "owed").await,
        (3000, 1000),
        "each once"
    );
}

/// A process that was stopped, or cut off, knows that it has lost its permits before it goes on using them.
#[tokio::test]
async fn a_guard_that_is_cut_off_is_lost_before_others_have_its_permit() {
    let (server, proxy) = start().await;
    let client = builder(proxy.url())
        .lock_watchdog_timeout(Duration::from_secs(2))
        .connect()
        .await
        .unwrap();
    let jobs = client.permit_expirable_semaphore("cut off");
    let other = connect(server.url())
        .await
        .permit_expirable_semaphore("cut off");
    jobs.try_set_permits(1).await.unwrap();
    let guard = jobs.permit().await.unwrap();
    proxy.blackhole();
    let taken = timeout(LIMIT, other.acquire())
        .await
        .expect("it comes back")
        .unwrap();
    assert!(guard.is_lost());
    timeout(LIMIT, guard.lost()).await.expect("it is told");
    proxy.clear();
    // It gives nothing back that is somebody else's.
    assert_eq!(guard.release().await, Ok(false));
    assert_eq!(other.try_release(taken.id()).await, Ok(true));
}

/// A reply is lost, and the question about it is refused: nobody knows, and nothing is lost.
#[tokio::test]
async fn a_refusal_behind_a_lost_reply_denies_nothing() {
    let (server, proxy) = start().await;
    let mut control = server.connection().await;
    let client = builder(proxy.url())
        .response_timeout(Duration::from_millis(60))
        .connect()
        .await
        .unwrap();
    let jobs = client.permit_expirable_semaphore("denied");
    let mine = record("denied", &client);
    jobs.try_set_permits(2).await.unwrap();
    let held = jobs.acquire().await.unwrap();
    proxy.at_script(1, Fate::LoseReply);
    let struck = proxy.struck();
    let (call, id) = (jobs.clone(), held.id().to_owned());
    let call = tokio::spawn(async move { call.try_release(&id).await });
    proxy.until_struck(struck + 1).await;
    // Before the reply is missed, the record becomes unreadable.
    let _: () = redis::pipe()
        .atomic()
        .del(&mine)
        .lpush(&mine, "of others")
        .query_async(&mut control)
        .await
        .unwrap();
    let error = timeout(LIMIT, call)
        .await
        .expect("it ends")
        .unwrap()
        .unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
    assert_eq!(
        stored(&mut control, "denied").await,
        (2, 0),
        "it has happened"
    );
    let _: () = control.del(&mine).await.unwrap();
    let keys: Vec<_> = snapshot_all(&mut control).await.into_keys().collect();
    assert!(keys.iter().any(|key| key == "denied"), "{keys:?}");
    jobs.acquire().await.unwrap();
    assert_eq!(stored(&mut control, "denied").await, (1, 1));
}
