//! Random sequences of one owner's steps, whose handles come and go, and whose messages get lost or arrive late: after
//! each step Redis counts as many holds as there are, with the time to live that they should have, and the client knows.

use std::time::Duration;

use crate::support::proxy::{Fate, Proxy};
use crate::support::server::RedisServer;
use fastrand::Rng;
use futures::future::join_all;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, Error, Hold, Lease, Lock, RFencedLock};

const SEQUENCES: u64 = 10;
const STEPS: usize = 250;
const MOST_HOLDS: usize = 5;

const HOUR: Duration = Duration::from_secs(3600);
const WATCHDOG: Duration = Duration::from_secs(600);

/// More than the run takes, far less than the terms differ by.
const TOLERANCE: Duration = Duration::from_secs(200);

/// One time that the owner has taken the lock; without a term it is renewed.
struct Taken {
    /// Given back by what it is; without it, by the owner's next unlock.
    hold: Option<Hold>,
    term: Option<Duration>,
}

struct Owner {
    rng: Rng,
    name: String,
    client: Client,
    redis: MultiplexedConnection,
    proxy: Proxy,
    /// The latest last.
    holds: Vec<Taken>,
    /// The longest term since nothing was held.
    longest: Option<Duration>,
    last_token: u64,
}

impl Owner {
    async fn new(server: &RedisServer, seed: u64) -> Self {
        let proxy = Proxy::start(server).await;
        let client = Client::builder(proxy.url())
            .response_timeout(Duration::from_millis(60))
            .lock_watchdog_timeout(WATCHDOG)
            .connect()
            .await
            .unwrap();
        Owner {
            rng: Rng::with_seed(seed),
            name: format!("sequence-{seed}"),
            client,
            redis: server.connection().await,
            proxy,
            holds: Vec::new(),
            longest: None,
            last_token: 0,
        }
    }

    /// No handle is kept.
    fn lock(&self) -> RFencedLock {
        self.client.fenced_lock(&self.name).with_owner(5)
    }

    fn trouble(&mut self) {
        const FATES: [Fate; 3] = [Fate::LoseReply, Fate::LoseReplyAndClose, Fate::HoldRequest];
        if self.rng.bool() {
            self.proxy.clear_fates();
            let fate = FATES[self.rng.usize(..FATES.len())];
            self.proxy.at_script(self.rng.u64(1..3), fate);
        }
        if self.rng.u8(..6) == 0 {
            self.proxy.let_go();
        }
    }

    /// The time to live: it comes no nearer while the lock is held.
    fn expected_ttl(&mut self) -> Option<Duration> {
        let terms = self
            .holds
            .iter()
            .map(|taken| taken.term.unwrap_or(WATCHDOG));
        let longest = terms.max();
        self.longest = longest.map(|longest| longest.max(self.longest.unwrap_or_default()));
        self.longest
    }

    fn all_lost(&mut self) {
        self.longest = None;
        for taken in self.holds.drain(..) {
            if let Some(hold) = taken.hold {
                assert!(hold.lease().is_lost(), "{}: it is not told", self.name);
            }
        }
    }

    /// One step; the time to live that it leaves, where that is known.
    async fn step(&mut self) -> Option<Duration> {
        let kind = self.rng.u32(..100);
        let last_is_plain = self.holds.last().is_some_and(|taken| taken.hold.is_none());
        let term = self.rng.bool().then(|| HOUR * self.rng.u32(1..9));
        match kind {
            0..40 if self.holds.len() < MOST_HOLDS => {
                let lock = self.lock();
                let lock = term.map_or_else(|| lock.clone(), |term| lock.with_lease(term));
                let hold = lock.hold(None).await.unwrap();
                let hold = hold.expect("waited for");
                let token = hold.token().unwrap();
                assert!(token > self.last_token, "{token} is no new token");
                self.last_token = token;
                let hold = Some(hold);
                self.holds.push(Taken { hold, term });
                self.expected_ttl()
            }
            40..55 if self.holds.len() < MOST_HOLDS => {
                match term {
                    None => self.lock().lock().await.unwrap(),
                    Some(term) => self.lock().with_lease(term).lock().await.unwrap(),
                }
                self.last_token = self.lock().token().await.unwrap().unwrap_or(0);
                self.holds.push(Taken { hold: None, term });
                self.expected_ttl()
            }
            55..75 if !self.holds.is_empty() => {
                let place = self.rng.usize(..self.holds.len());
                self.holds[place].hold.as_ref()?;
                let hold = self.holds.remove(place).hold.unwrap();
                assert!(!hold.lease().is_lost());
                match self.rng.bool() {
                    true => self.lock().unlock_hold(&hold).await.unwrap(),
                    false => self.lock().unlock_hold_detached(&hold),
                }
                self.expected_ttl()
            }
            75..88 => {
                let plain = |taken: &Taken| taken.hold.is_none();
                if self.holds.is_empty() {
                    let unlocked = self.lock().unlock().await;
                    assert!(matches!(unlocked, Err(Error::NotHeld { .. })));
                }
                let place = self.holds.iter().rposition(plain)?;
                self.lock().unlock().await.unwrap();
                self.holds.remove(place);
                self.expected_ttl()
            }
            // Redis counts another number, as when a failover has lost a write.
            88..92 if last_is_plain => {
                let (count, owner) = (self.rng.u32(1..9), self.lock().owner().to_owned());
                let _: () = self.redis.hset(&self.name, owner, count).await.unwrap();
                self.lock().unlock().await.unwrap();
                self.holds.pop();
                self.expected_ttl()
            }
            92..96 => {
                let _: () = self.redis.del(&self.name).await.unwrap();
                let unlocked = self.lock().unlock().await;
                match unlocked {
                    // A repetition cannot tell that from its first copy's work.
                    Ok(()) if self.holds.len() == 1 => {
                        self.holds.clear();
                        self.longest = None;
                    }
                    Ok(()) | Err(Error::NotHeld { .. }) => self.all_lost(),
                    Err(error) => panic!("{error}"),
                }
                None
            }
            96.. => {
                let forced = self.client.fenced_lock(&self.name).force_unlock().await;
                assert_eq!(forced, Ok(!self.holds.is_empty()));
                self.all_lost();
                None
            }
            _ => None,
        }
    }

    async fn check(&mut self, step: usize, ttl: Option<Duration>) {
        let place = format!("{}, step {step}", self.name);
        let count = self.lock().hold_count().await.unwrap();
        assert_eq!(count as usize, self.holds.len(), "{place}");
        for taken in &self.holds {
            let lease = taken.hold.as_ref().map(Hold::lease);
            assert!(!lease.is_some_and(Lease::is_lost));
        }
        let Some(ttl) = ttl else { return };
        let left: u64 = self.redis.pttl(&self.name).await.unwrap();
        let left = Duration::from_millis(left);
        let known = self.lock().lease().remaining().expect("it has an end");
        assert!(left <= ttl && left + TOLERANCE > ttl, "{place}: {left:?}");
        assert!(
            known <= left + Duration::from_millis(1),
            "{place}: {known:?}"
        );
        assert!(known + TOLERANCE > left, "{place}: {known:?}");
    }
}

#[tokio::test]
async fn each_hold_counts_once() {
    let server = RedisServer::start().await;
    let sequences = (0..SEQUENCES).map(async |seed| {
        let mut owner = Owner::new(&server, seed).await;
        for step in 0..STEPS {
            owner.trouble();
            let ttl = owner.step().await;
            owner.check(step, ttl).await;
            // Sometimes what goes on behind the last handle ends, sometimes not.
            for _ in 0..owner.rng.u32(..30) {
                tokio::task::yield_now().await;
            }
        }
        owner.proxy.clear_fates();
        owner.proxy.let_go();
        owner.proxy.struck()
    });
    let struck: u64 = join_all(sequences).await.into_iter().sum();
    assert!(struck > SEQUENCES * STEPS as u64 / 10, "{struck} were hit");
}
