//! Where the master is, as the sentinels say.
//!
//! All of them are asked at the same time. The answer with the highest configuration epoch counts, as every failover has
//! an epoch above those before: a sentinel that has been cut off does not lead back to an old master. Nor does it when it
//! is the only one that answers: what is older than what has been seen is believed only when all sentinels say so (as
//! after they were set up anew), or most of them when for [`TRUST_UNCONFIRMED`] none has confirmed it.
//!
//! They also announce a failover. A client with a connection to another server then ends it at once, even where that
//! server goes on taking itself for the master.

use std::time::Duration;

use futures::future::join_all;
use futures::stream::{FuturesUnordered, StreamExt};
use redis::Value;
use tokio::sync::{Mutex, Notify, watch};
use tokio::time::{Instant, timeout};

use super::address::{Address, Login};
use super::failure::{Failure, Reason, Refusal};
use super::handshake::{Entry, exchange};
use super::messages::{Heard, Messages};
use super::pubsub::Subscriber;
use super::tls::Tls;
use super::{Backoff, TRUST_UNCONFIRMED, jittered};
use crate::outside::Stream;

/// Their answer is used for this long.
const FRESH: Duration = Duration::from_millis(500);
/// How long another answer is waited for when most have answered.
const GRACE: Duration = Duration::from_millis(100);
/// How often one that is listened to is asked whether it is still there.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// The pauses between attempts to listen to one.
const AGAIN: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The channels of their messages: a replica has been promoted, that failover is done, or an operator has set the master.
const EVENTS: [&str; 3] = ["+promoted-slave", "+switch-master", "+monitor"];
/// As long as they tell only what is older than what is known they are asked again after this.
const PACE: Duration = Duration::from_secs(2);

/// The sentinels of one master.
pub(super) struct Sentinels {
    /// The master's name.
    master: String,
    sentinels: Vec<Sentinel>,
    /// How long one may take to answer.
    patience: Duration,
    told: Mutex<Told>,
    known: watch::Sender<Option<Master>>,
    events: Notify,
}

/// Their answers, and the times of these.
#[derive(Default)]
struct Told {
    /// When the master was asked for last that is known.
    last: Option<Instant>,
    /// Since when no sentinel has confirmed it, nor a later one.
    missed: Option<Instant>,
}

/// How to come in to one of them.
pub(super) struct Sentinel {
    pub(super) address: Address,
    pub(super) tls: Option<Tls>,
    pub(super) login: Login,
    /// If it wants a password.
    pub(super) login_if_wanted: Option<Login>,
}

/// A master, and since which configuration it is that.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Master {
    address: Address,
    epoch: u64,
}

/// The answer of a sentinel: none if it does not know the master's name.
type Answer = Option<Master>;

impl Sentinels {
    pub(super) fn new(master: String, sentinels: Vec<Sentinel>, patience: Duration) -> Self {
        Sentinels {
            master,
            sentinels,
            patience,
            told: Mutex::default(),
            known: watch::Sender::new(None),
            events: Notify::new(),
        }
    }

    /// The master's name, and the sentinels to ask for it.
    pub(super) fn printed(&self) -> String {
        let sentinels: Vec<_> = self
            .sentinels
            .iter()
            .map(|s| s.address.to_string())
            .collect();
        format!("{} of the sentinels {}", self.master, sentinels.join(", "))
    }

    /// The master's address.
    pub(super) async fn locate(&self) -> Result<Address, Refusal> {
        self.locate_unless(FRESH).await
    }

    /// Returns when the master is known to be somewhere else than at `address`.
    pub(super) async fn until_not(&self, address: &Address) {
        let mut known = self.known.subscribe();
        let moved = known.wait_for(|known| known.as_ref().is_some_and(|m| m.address != *address));
        if moved.await.is_err() {
            // Never, as the sender is this one's own.
            std::future::pending().await
        }
    }

    /// The same without asking if it was asked less than `fresh` ago.
    async fn locate_unless(&self, fresh: Duration) -> Result<Address, Refusal> {
        let mut told = self.told.lock().await;
        let known = self.known.borrow().clone();
        if let (Some(last), Some(known)) = (told.last, &known)
            && last.elapsed() < fresh
        {
            return Ok(known.address.clone());
        }
        let answers = self.ask_all().await;
        let stale = told
            .missed
            .is_some_and(|since| since.elapsed() >= TRUST_UNCONFIRMED);
        let known_and_stale = known.as_ref().map(|known| (known, stale));
        let sentinels = self.sentinels.len();
        let chosen = choose(known_and_stale, &answers, sentinels, &self.master);
        told.missed = match &chosen {
            Ok(_) => None,
            Err(_) => told.missed.or_else(|| Some(Instant::now())),
        };
        let master = chosen?;
        told.last = Some(Instant::now());
        if let Some(known) = known
            && known.address != master.address
        {
            let (from, to) = (known.address, &master.address);
            tracing::info!(master = %self.master, %from, %to, "the master has moved");
        }
        let address = master.address.clone();
        self.known.send_if_modified(|known| {
            let changed = known.as_ref() != Some(&master);
            *known = Some(master);
            changed
        });
        Ok(address)
    }

    /// Their answers: all of them, or most of them if the others take long.
    async fn ask_all(&self) -> Vec<Result<Answer, Refusal>> {
        let asking = self.sentinels.iter().map(|sentinel| async move {
            let asking = timeout(self.patience, sentinel.ask(&self.master));
            let answer = asking.await;
            let answer = answer.unwrap_or_else(|_| Err(Refusal::silent(self.patience)));
            answer.map_err(|refusal| refusal.by(format_args!("sentinel {}", sentinel.address)))
        });
        let mut asking: FuturesUnordered<_> = asking.collect();
        let mut answers = Vec::new();
        loop {
            let good = answers.iter().filter(|answer| Result::is_ok(answer));
            let limit = match 2 * good.count() > self.sentinels.len() {
                true => GRACE,
                false => Duration::MAX,
            };
            match timeout(limit, asking.next()).await {
                Ok(Some(answer)) => answers.push(answer),
                Ok(None) | Err(_) => return answers,
            }
        }
    }

    /// Listens to all of them, and asks again when one has news.
    pub(super) async fn watch(&self) {
        let listening = self.sentinels.iter().map(|sentinel| self.listen(sentinel));
        let asking = async {
            loop {
                self.events.notified().await;
                while let Err(refusal) = self.locate_unless(Duration::ZERO).await {
                    tracing::debug!(master = %self.master, detail = %refusal.detail, "not located");
                    // A change that is announced by then has not been missed.
                    let _ = timeout(jittered(PACE, 0.5, 1.0), self.events.notified()).await;
                }
            }
        };
        tokio::join!(asking, join_all(listening));
    }

    async fn listen(&self, sentinel: &Sentinel) {
        let mut backoff = Backoff::between(AGAIN, LONGEST_PAUSE);
        loop {
            let refusal = match self.subscribe(sentinel).await {
                Ok(subscriber) => {
                    let since = Instant::now();
                    let end = self.hear(subscriber).await;
                    backoff.note_end(since.elapsed());
                    end
                }
                Err(refusal) => refusal,
            };
            tracing::debug!(sentinel = %sentinel.address, detail = %refusal.detail, "not heard");
            tokio::time::sleep(backoff.next()).await;
        }
    }

    /// A connection to one of them, which has the messages from now on.
    async fn subscribe(&self, sentinel: &Sentinel) -> Result<Subscriber, Refusal> {
        let entered = timeout(self.patience, sentinel.enter()).await;
        let stream = entered.unwrap_or_else(|_| Err(Refusal::silent(self.patience)))?;
        let mut subscriber = Subscriber::new(stream, Messages::Plain, self.patience);
        let events = EVENTS.map(str::to_owned);
        for subscribed in subscriber.subscribe(&events).await.map_err(lost)? {
            subscribed?;
        }
        Ok(subscriber)
    }

    /// Listens until the connection ends; why it did.
    async fn hear(&self, mut subscriber: Subscriber) -> Refusal {
        // Some may have been missed.
        self.events.notify_one();
        loop {
            match timeout(PING_INTERVAL, subscriber.next()).await {
                Ok(None) => return Refusal::unreachable("the connection has ended"),
                Ok(Some(Heard::Message { payload, .. })) => {
                    let text = String::from_utf8_lossy(&payload);
                    if text.split(' ').any(|word| word == self.master) {
                        self.events.notify_one();
                    }
                }
                Ok(Some(Heard::Ended(_))) => {}
                Err(_) => {
                    if let Err(failure) = subscriber.ping().await {
                        return lost(failure);
                    }
                }
            }
        }
    }
}

fn lost(failure: Failure) -> Refusal {
    Refusal::unreachable(failure.to_string())
}

impl Sentinel {
    async fn enter(&self) -> Result<Box<dyn Stream>, Refusal> {
        let entered = self.enter_as(&self.login).await;
        match (&entered, &self.login_if_wanted) {
            (Err(refusal), Some(login)) if refusal.reason == Reason::Authentication => {
                self.enter_as(login).await
            }
            _ => entered,
        }
    }

    async fn enter_as(&self, login: &Login) -> Result<Box<dyn Stream>, Refusal> {
        let entry = Entry {
            address: &self.address,
            peer: None,
            tls: self.tls.as_ref(),
            login,
            client_name: None,
            master: false,
            replicas: false,
        };
        let (_, stream) = entry.enter().await?;
        Ok(stream)
    }

    async fn ask(&self, master: &str) -> Result<Answer, Refusal> {
        let mut stream = self.enter().await?;
        let mut commands = [redis::cmd("SENTINEL"), redis::cmd("SENTINEL")];
        // The address of a replica that has just been promoted comes only with the first, the epoch with the second.
        commands[0].arg(&["GET-MASTER-ADDR-BY-NAME", master]);
        commands[1].arg(&["MASTER", master]);
        let answers = exchange(&mut stream, &commands).await?;
        let [address, details] = answers
            .try_into()
            .map_err(|_| Refusal::unreachable("not two answers"))?;
        let address = address.map_err(|error| Refusal::at_connect(&error))?;
        let address: Option<(String, u16)> = redis::from_redis_value(address)
            .map_err(|error| Refusal::unreachable(format!("no address: {error}")))?;
        let Some((host, port)) = address else {
            return Ok(None);
        };
        Ok(Some(Master {
            address: Address::Tcp { host, port },
            epoch: details.ok().and_then(epoch).unwrap_or_default(),
        }))
    }
}

/// The configuration epoch in a sentinel's answer about a master; a user may lack the permission for it.
fn epoch(details: Value) -> Option<u64> {
    let details: std::collections::HashMap<String, String> =
        redis::from_redis_value(details).ok()?;
    details.get("config-epoch")?.parse().ok()
}

/// The configuration to follow, by the `answers` of some of so many `sentinels`. With the known one comes whether no sentinel has
/// confirmed it for long.
fn choose(
    known: Option<(&Master, bool)>,
    answers: &[Result<Answer, Refusal>],
    sentinels: usize,
    name: &str,
) -> Result<Master, Refusal> {
    let masters = || answers.iter().flatten().flatten();
    let votes = |master: &Master| masters().filter(|other| *other == master).count();
    // Where as many say one thing as another, clients do not go back and forth.
    let is_known = |master: &Master| known.is_some_and(|(known, _)| known == master);
    let order = |master: &&Master| (master.epoch, votes(master), is_known(master));
    let Some(best) = masters().max_by_key(order) else {
        return Err(nobody(answers, name));
    };
    match known {
        Some((known, stale))
            if known.epoch > best.epoch
                && masters().count() < sentinels
                && !(stale && 2 * votes(best) > sentinels) =>
        {
            Err(Refusal::unreachable(format!(
                "the sentinels that answer know only an older master than {}",
                known.address
            )))
        }
        _ => Ok(best.clone()),
    }
}

/// Why there is no master.
fn nobody(answers: &[Result<Answer, Refusal>], name: &str) -> Refusal {
    if answers.iter().any(Result::is_ok) {
        return Refusal {
            reason: Reason::Other,
            detail: format!("the sentinels do not know a master called {name:?}"),
        };
    }
    let refusals = || answers.iter().filter_map(|answer| answer.as_ref().err());
    // A password that is wrong does not become right by trying again.
    let lasting = refusals().find(|refusal| refusal.reason != Reason::Unreachable);
    lasting.cloned().unwrap_or_else(|| {
        let details: Vec<_> = refusals().map(|refusal| refusal.detail.as_str()).collect();
        Refusal::unreachable(format!("no sentinel answers: {}", details.join("; ")))
    })
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn master(port: u16, epoch: u64) -> Master {
        let host = "h".to_owned();
        let address = Address::Tcp { host, port };
        Master { address, epoch }
    }

    fn says(port: u16, epoch: u64) -> Result<Answer, Refusal> {
        Ok(Some(master(port, epoch)))
    }

    /// It speaks to each who comes, and leaves after a while.
    #[tokio::test]
    async fn who_has_been_heard_is_listened_to_again_at_once() {
        const TIMES: usize = 8;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let sentinel = Sentinel {
            address: Address::tcp("127.0.0.1", listener.local_addr().unwrap().port()),
            tls: None,
            login: Login::default(),
            login_if_wanted: None,
        };
        let serving = async {
            for _ in 0..TIMES {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut asked = String::new();
                let mut read = async |what: &str| {
                    while !asked.contains(what) {
                        let mut some = [0; 1024];
                        let count = stream.read(&mut some).await.unwrap();
                        asked += std::str::from_utf8(&some[..count]).unwrap();
                    }
                    let said = match what {
                        "PING" => "+OK\r\n+OK\r\n+PONG\r\n".to_owned(),
                        _ => "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n".repeat(EVENTS.len()),
                    };
                    stream.write_all(said.as_bytes()).await.unwrap();
                };
                read("PING").await;
                read("+monitor").await;
                tokio::time::sleep(Duration::from_millis(120)).await;
            }
        };
        let sentinels = Sentinels::new("m".to_owned(), vec![sentinel], Duration::from_secs(1));
        let listening = sentinels.listen(&sentinels.sentinels[0]);
        let limit = Duration::from_secs(3);
        tokio::select! {
            () = listening => {}
            served = timeout(limit, serving) => served.expect("no long pauses"),
        }
    }

    fn silent() -> Result<Answer, Refusal> {
        Err(Refusal::unreachable("sentinel h:9: refused"))
    }

    #[test]
    fn the_latest_configuration_counts() {
        let chosen = |known: Option<&Master>, answers: &[_]| {
            choose(
                known.map(|known| (known, false)),
                answers,
                answers.len(),
                "m",
            )
        };
        let old = master(1, 4);
        for (known, answers, expected) in [
            (None, vec![says(1, 0)], master(1, 0)),
            (None, vec![says(1, 4), says(2, 5), says(1, 4)], master(2, 5)),
            (None, vec![silent(), says(1, 4), Ok(None)], master(1, 4)),
            (
                Some(&old),
                vec![silent(), says(2, 5), silent()],
                master(2, 5),
            ),
            (Some(&old), vec![silent(), says(1, 4)], master(1, 4)),
            // Set up anew.
            (Some(&old), vec![says(2, 0), says(2, 0)], master(2, 0)),
            // As many as say so.
            (None, vec![says(1, 0), says(2, 0), says(2, 0)], master(2, 0)),
            // As many say the other thing.
            (Some(&old), vec![says(0, 4), says(1, 4)], master(1, 4)),
        ] {
            assert_eq!(chosen(known, &answers).unwrap(), expected, "{answers:?}");
        }
        let refused = chosen(Some(&old), &[says(2, 3), silent()]).unwrap_err();
        assert_eq!(refused.reason, Reason::Unreachable);
        assert!(refused.detail.contains("older"), "{}", refused.detail);
    }

    #[test]
    fn what_nobody_tells_any_more_is_given_up_where_most_agree() {
        let old = master(1, 4);
        for (stale, answers, chosen) in [
            (true, vec![says(2, 3), says(2, 3), silent()], Some(2)),
            (false, vec![says(2, 3), says(2, 3), silent()], None),
            (true, vec![says(2, 3), silent(), silent()], None),
            (true, vec![says(2, 3), says(3, 3), silent()], None),
            (true, vec![says(1, 4), says(2, 3), says(2, 3)], Some(1)),
        ] {
            let master = choose(Some((&old, stale)), &answers, answers.len(), "m").ok();
            let expected = chosen.map(|port| says(port, 0).unwrap().unwrap().address);
            assert_eq!(master.map(|master| master.address), expected, "{answers:?}");
        }
    }

    #[test]
    fn why_there_is_none_is_told() {
        let wrong = || {
            Err(Refusal {
                reason: Reason::Authentication,
                detail: "WRONGPASS".to_owned(),
            })
        };
        for (answers, reason, words) in [
            (vec![silent(), silent()], Reason::Unreachable, "h:9"),
            (vec![silent(), wrong()], Reason::Authentication, "WRONGPASS"),
            (vec![silent(), Ok(None), wrong()], Reason::Other, "\"m\""),
        ] {
            let refusal = choose(None, &answers, answers.len(), "m").unwrap_err();
            assert_eq!(refusal.reason, reason, "{answers:?}");
            assert!(refusal.detail.contains(words), "{}", refusal.detail);
        }
    }
}
