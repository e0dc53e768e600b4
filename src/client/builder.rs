//! [`ClientBuilder`]: the settings of a client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::Client;
use crate::config::{Config, NameMapper, Protocol, ShardedPubSub};
use crate::credentials::CredentialsProvider;
use crate::engine::Core;
use crate::error::{Error, Result};

/// A lock has to be renewed three times in this, over the network.
const SHORTEST_WATCHDOG_TIMEOUT: Duration = Duration::from_millis(100);

/// No time-out makes sense above a day, and arithmetic stays far from overflow.
const LONGEST_SETTING: Duration = Duration::from_secs(24 * 60 * 60);

/// The settings of a [`Client`]; the guide has [all of them in a table](crate::guide::operations#settings).
///
/// # Names and times of calls
///
/// The names of calls say whether they wait, and what they give. It is the same for semaphores, locks and latches:
///
/// | Name | Waits | Where there is nothing in time |
/// |---|---|---|
/// | `acquire`, `permit`; `lock`, `guard`; `wait` | for as long as it takes | |
/// | `try_acquire`, `try_permit`; `try_lock`, `try_guard` | not at all | `false` or `None` |
/// | `try_acquire_for`, `permit_for`; `try_lock_for`, `guard_for`; `wait_for` | for the time given, its *wait*. A latch is read once more at its end. A wait of zero is `try_` | `false` or `None` |
///
/// After a verb the caller must release by a call. A noun is a guard, which releases when it is dropped: a
/// [`Permit`](crate::Permit) or [`LeasedPermit`](crate::LeasedPermit) of a semaphore, a [`LockGuard`](crate::LockGuard) of a
/// lock. `with_lease` gives a handle with a lease: its locks and permits end after that time.
///
/// Four times must not be mixed up:
///
/// | Time | The end of |
/// |---|---|
/// | the *wait*, given with the call | waiting for other callers to release |
/// | the *call timeout*, [`call_timeout`](Self::call_timeout) | the call, at the latest this long after its wait |
/// | the *retry window*, [`retry_window`](Self::retry_window) | repeating a call that was not answered, where there is no call timeout before |
/// | the *lease*, of a lock or a leased permit | the lock or the permit, unless it is renewed: without a lease of the handle it is, in the background |
///
/// So `permit_for(1, 300 ms)` is answered within 300 ms where Redis is well: with a permit, or with `None`. Where Redis is
/// away it ends with an error after 5.3 s, or with a call timeout of 500 ms after 0.8 s. Without a limit, `acquire`, `lock` and `wait`
/// go on through an outage once they have been answered "not yet"; before that, they end with an error after the retry window.
///
/// Any call may be put into [`tokio::time::timeout`] as well, or into a `select!`: a future that is dropped leaves nothing taken, and a
/// release that has been polled once is carried out. The call timeout does the same, and its error says whether the call may have taken
/// effect: see [`Error::effect`].
///
/// ```no_run
/// # async fn connect() -> redisson_semaphore::Result<()> {
/// use std::time::Duration;
/// use redisson_semaphore::{Client, NameMapper};
///
/// let client = Client::builder("redis://127.0.0.1:6379")
///     .name_mapper(NameMapper::prefix("shop:"))
///     .retry_window(Duration::from_secs(10))
///     .connect()
///     .await?;
/// # drop(client);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct ClientBuilder {
    config: Config,
    runtime: Option<Handle>,
}

/// Settings that are stored as they are.
macro_rules! settings {
    ($($(#[$meta:meta])* $name:ident: $of:ty;)*) => {
        impl ClientBuilder {
            $(
                $(#[$meta])*
                pub fn $name(mut self, $name: $of) -> Self {
                    self.config.$name = $name.into();
                    self
                }
            )*
        }
    };
}

settings! {
    /// The protocol of the connections: by default that of the URL (`redis://h/?protocol=resp3`), or RESP2. Redisson:
    /// `setProtocol`.
    ///
    /// By RESP3 a connection begins with `HELLO 3`, which takes the place of `AUTH` and no permission. A server that does not know it is
    /// an error at once, [`Error::Server`]. Nothing else is different, and the clients of an object need not all speak the same.
    /// Sentinels are spoken to as their own URLs say.
    protocol: Protocol;

    /// The settings of TLS for a URL `rediss://`: trusted authorities, and a client certificate.
    #[cfg(feature = "tls-rustls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls-rustls")))]
    tls: crate::Tls;

    /// The messages that wake waiters in a cluster; all its clients must use the same ones. Redisson:
    /// `setShardedSubscriptionMode`, with the same default. Nothing but a cluster has a choice.
    sharded_pubsub: ShardedPubSub;

    /// Sets how often a cluster is asked for its slots while all is well; 5 s by default, varied by a quarter. It is asked besides where a
    /// node sends a call elsewhere, and where a connection is lost. Redisson: `scanInterval`.
    scan_interval: Duration;

    /// The settings of TLS for sentinels with a URL `rediss://`; those of [`tls`](Self::tls) by default.
    #[cfg(feature = "tls-rustls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls-rustls")))]
    sentinel_tls: crate::Tls;

    /// How the names in the code become the names in Redis; unchanged by default.
    name_mapper: NameMapper;

    /// How long a server may be silent while a request waits for its reply; 3 s by default. Then the request is repeated on a new
    /// connection. A server that still answers earlier requests is not silent: a burst of calls may take up to the
    /// [retry window](Self::retry_window).
    response_timeout: Duration;

    /// How long one attempt to connect may take, and how long [`connect`](Self::connect) tries; 10 s by
    /// default.
    connect_timeout: Duration;

    /// How long a call goes on trying while the server does not answer; 30 s by default. See
    /// [above](Self#names-and-times-of-calls) for the other times, and for a bound on all of a call.
    ///
    /// After it the caller gets [`Error::OutcomeUnknown`] if something was sent and not answered; else
    /// [`Error::Unavailable`] if there was no connection, and [`Error::RefusedForNow`] if the server refused for a
    /// reason that may pass. An error may come later than that by the response time-out.
    retry_window: Duration;

    /// Sets how long a call may take besides its wait; a day at the most.
    ///
    /// By default it is 5 s for timed calls (`permit_for`, `try_lock_for`, `wait_for` and the like), and all others go on
    /// through the [retry window](Self::retry_window). Where it is set it holds for these, too: no call takes longer then than its
    /// wait and this time, whatever has become of Redis, but for those that wait without a limit (`acquire`, `lock`, `wait`).
    ///
    /// After the error the call has left, as if its future had been dropped: what it took is released, a release is carried out.
    /// The error is [`Error::Unavailable`] where nothing took effect and nothing will, as where nothing was sent; else
    /// [`Error::OutcomeUnknown`]. The retry window may come first.
    call_timeout: Duration;

    /// Sets after how long a client asks again for its waiters; 5 s by default, varied by a quarter, and up to a second later.
    /// Where it has asked in the last half of that time anyway, one check is left out.
    ///
    /// Notifications wake waiters at once. This check is for permits that appear without one, as when a key is set by
    /// hand, and for notifications that are lost. A client that listens to more channels than 200 for each second of this checks the objects of 200 channels a second.
    safety_interval: Duration;

    /// Sets for how long after an answer of Redis a release of an [`RSemaphore`](crate::RSemaphore) may serve a waiter of this client
    /// without Redis; 5 ms by default. Zero turns that off.
    ///
    /// A waiter of a lock joins the queue that much later while only callers of the holder's client wait.
    ///
    /// The time is four times as long while no other client and no JVM waits. Where another client waits, only waiters are served that
    /// came before its first one, or 5 ms later.
    ///
    /// The effect is that of a release and an acquisition back to back. Three things differ. Permits that others take away (`add_permits`
    /// with a negative number) are noticed that much later. A missing key is not created. A waiter that was served may be granted permits
    /// once more by its entry in the queue, for a round trip, until they are released.
    local_hand_off: Duration;

    /// Sets for how long a lock without a lease, and the permits of a [watched](crate::RSemaphore::watched) guard, stay taken after their
    /// process has gone; 30 s by default, 100 ms at the least.
    ///
    /// Both are renewed every third of this, on the connection of the calls: a renewal that waits behind slow answers until the time is
    /// over comes too late. In a cluster it should be longer than [`response_timeout`](Self::response_timeout):
    /// otherwise a master that falls silent costs leases at other masters, too. Redisson: `lockWatchdogTimeout`.
    lock_watchdog_timeout: Duration;

    /// Sets for how long a waiter of an [`RFairLock`](crate::RFairLock) that stands first and tries no more keeps its place; 300 s by default.
    ///
    /// Where the lock is free, a waiter that does not take it keeps its place for 10 s at the most, so a killed process holds those behind it up
    /// for no longer for each of its waiting calls. Waiters try at least three times in their time. Redisson: `fairLockWaitTimeout`.
    fair_lock_wait_timeout: Duration;

    /// Sets whether the guards of all semaphores of this client are [watched](crate::RSemaphore::watched): their permits come back when
    /// the process dies. They are by default.
    ///
    /// [`RSemaphore::unwatched`](crate::RSemaphore::unwatched) is the same for one handle. Redisson has no such setting.
    watch_semaphores: bool;

    /// For the tests of this crate, which can't wait for minutes: how long the records of calls live at the least.
    #[doc(hidden)]
    least_record_life: Duration;
}

impl ClientBuilder {
    pub(crate) fn of(config: Config) -> Self {
        let runtime = None;
        ClientBuilder { config, runtime }
    }

    /// The database to select; that of the URL, or 0, by default.
    ///
    /// Channels are not divided by databases: objects of the same name in two of them wake each other's
    /// waiters, which then find nothing. A cluster has database 0 alone, but for Valkey 9, where `cluster-databases` says how many there
    /// are: the server refuses the others.
    pub fn database(mut self, database: u32) -> Self {
        self.config.database = Some(database.into());
        self
    }

    /// The user of the server's ACL; that of the URL by default. One without a password comes in if the server lets it.
    pub fn username(mut self, username: impl Into<String>) -> Self {
        self.config.username = Some(username.into());
        self
    }

    /// The password; that of the URL by default.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.config.password = Some(password.into());
        self
    }

    /// Asked for user and password each time that a connection is made, instead of those of the URL and the settings.
    pub fn credentials(mut self, provider: impl CredentialsProvider + 'static) -> Self {
        self.config.credentials = Some(Arc::new(provider));
        self
    }

    /// Asks these sentinels, of one and the same set, for the master. Redisson: `useSentinelServers()`.
    ///
    /// The client's URL then has the master's name in place of host and port: `redis://app:secret@mymaster/0`, or
    /// `rediss://` where the master is reached by TLS. The sentinels have URLs of their own, with their own user and
    /// password, or `rediss://`; their port is 26379 by default.
    ///
    /// All sentinels are asked at each connect, and the latest configuration counts. A server that they take for the
    /// master, but that is a replica, is not written to (`ROLE`); and the client follows a failover as soon as they announce it,
    /// whatever the old master does: nothing more is sent to it, and calls without an answer are repeated at the new one.
    /// Writes that it had answered and not passed on to the new one are lost, as always with Redis.
    ///
    /// The client connects to each sentinel, and keeps that connection. A user needs `+role` at the servers, and at the
    /// sentinels `+sentinel|get-master-addr-by-name +sentinel|master +subscribe +ping` and the channels `&+promoted-slave
    /// &+switch-master &+monitor`.
    ///
    /// [`connect`](Self::connect) returns [`Error::Server`] at once for a name that the sentinels do not know,
    /// [`Error::Unavailable`] when no sentinel has answered within the connect time-out.
    ///
    /// ```no_run
    /// # async fn connect() -> redisson_semaphore::Result<()> {
    /// use redisson_semaphore::Client;
    ///
    /// let client = Client::builder("redis://app:secret@mymaster")
    ///     .sentinels(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3:26380"])
    ///     .connect()
    ///     .await?;
    /// # drop(client);
    /// # Ok(())
    /// # }
    /// ```
    pub fn sentinels(mut self, urls: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.config.sentinels = Some(urls.into_iter().map(Into::into).collect());
        self.config.sentinel_login = None;
        self
    }

    /// User and password for sentinels that have a password and none in their URLs.
    #[cfg(feature = "redisson-yaml")]
    pub(crate) fn sentinel_login(mut self, username: Option<String>, password: String) -> Self {
        self.config.sentinel_login = Some((username, password));
        self
    }

    /// A change counts when so many replicas have it (`WAIT`): a failover to one of them loses no grant that
    /// a caller has got, and no release. None by default. Redisson waits for replicas wherever it knows of any, and is content
    /// with one (`checkLockSyncedSlaves`).
    ///
    /// Each call then takes a round trip more, and that to the replicas; calls at the same time share it. Where too few
    /// replicas confirm, the call is repeated, as one that was not answered: through the retry window, or
    /// the call time-out. Then its caller gets [`Error::OutcomeUnknown`], with the number of replicas that confirmed. Its grant
    /// is released, unless a master that has taken over never made that grant. A release has been carried out, and may be lost
    /// with the master. A waiting caller goes on waiting. A permit of a semaphore that one script has released and granted stays taken
    /// until a replica confirms that, though its caller has gone.
    ///
    /// A replica is waited for 150 ms at a time (less where the response time-out is below 300 ms, or the watchdog time-out below 900 ms),
    /// as others wait behind it on that connection: one that always takes longer, as another continent away, never confirms anything.
    /// Replicas confirm that they have got it, not that they have stored it; and a replica that has not may be promoted all the
    /// same, where sentinels or the cluster choose it: ask for more than half of them to make that unlikely. Renewals are not
    /// waited for, nor are calls that look, or get nothing, or pass permits on within this client, unless they travel with others.
    /// A server that has no `WAIT`, or an ACL that forbids it, is an error at once: no connection is made. A user of the ACL needs `+wait`.
    pub fn wait_for_replicas(mut self, count: u32) -> Self {
        self.config.replicas = Some(count).filter(|count| *count > 0);
        self
    }

    /// The name that `CLIENT LIST` shows for both connections, and `holders` for guards; none by default. A name that the server
    /// refuses, as one with a space, is left out.
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.config.client_name = Some(name.into());
        self
    }

    /// Sets the tokio runtime for all that the client does in the background: connections, renewal and waiting; the runtime in which
    /// the client is made by default.
    ///
    /// The client lives as long as this runtime. So a client in a `static` can serve several runtimes, as those of `#[tokio::test]`. And
    /// code that blocks the caller's runtime does not delay the renewal of locks and guards. Calls may be made in any runtime.
    ///
    /// The runtime needs its I/O and time drivers (`enable_all`) and a thread that drives it: a multi-thread runtime has its own. A
    /// current-thread runtime works only while some thread is in its `block_on`.
    ///
    /// ```no_run
    /// use redisson_semaphore::{Client, Result};
    /// use tokio::runtime::{Builder, Runtime};
    ///
    /// async fn connect() -> Result<(Client, Runtime)> {
    ///     let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    ///     let client = Client::builder("redis://127.0.0.1:6379").runtime(runtime.handle().clone()).connect().await?;
    ///     Ok((client, runtime))    // to be kept as long as the client, and not to be dropped in async code
    /// }
    /// ```
    pub fn runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Connects.
    ///
    /// A server that can't be reached or is loading its data is tried again until the connect time-out.
    ///
    /// # Errors
    ///
    /// [`Error::Configuration`] for a URL that is no Redis URL, a setting of zero (but for `local_hand_off`) or above a day, and a watchdog
    /// time-out below 100 ms, [`Error::Authentication`] at once for a wrong user name or password, [`Error::Tls`] at once for a certificate that does
    /// not fit, [`Error::Unavailable`] or
    /// [`Error::RefusedForNow`] when the time is over; [`Error::PermissionDenied`] and [`Error::Server`] for other refusals.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time: then there is no client.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime where no [`runtime`](Self::runtime) is set, and in one that has ended.
    pub async fn connect(self) -> Result<Client> {
        self.check()?;
        let core = Core::connect(self.config, self.runtime).await?;
        Ok(Client { core })
    }

    /// Returns at once and connects in the background, for as long as it takes: a service starts while Redis is down.
    ///
    /// Calls wait for the connection as they do for one that has been lost, through the retry window. Their errors,
    /// [`Client::connection_state`] and the log say why there is no connection. That includes a wrong password, which
    /// [`connect`](Self::connect) reports at once.
    ///
    /// # Errors
    ///
    /// [`Error::Configuration`] for a URL that is no Redis URL and a setting of zero or above a day.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime where no [`runtime`](Self::runtime) is set.
    pub fn connect_lazy(self) -> Result<Client> {
        self.check()?;
        let core = Core::connect_lazy(self.config, self.runtime)?;
        Ok(Client { core })
    }

    fn check(&self) -> Result<()> {
        let (some, config) = (Duration::from_nanos(1), &self.config);
        macro_rules! at_least {
            ($least:expr, $setting:ident) => {
                (stringify!($setting), $least, config.$setting)
            };
        }
        let settings = [
            at_least!(some, response_timeout),
            at_least!(some, connect_timeout),
            at_least!(some, retry_window),
            at_least!(some, safety_interval),
            at_least!(some, scan_interval),
            at_least!(some, fair_lock_wait_timeout),
            at_least!(SHORTEST_WATCHDOG_TIMEOUT, lock_watchdog_timeout),
            at_least!(Duration::ZERO, local_hand_off),
        ];
        let call_timeout = config.call_timeout;
        let call_timeout = call_timeout.map(|set| ("call_timeout", some, set));
        for (name, least, value) in settings.into_iter().chain(call_timeout) {
            if value < least || value > LONGEST_SETTING {
                return Err(Error::Configuration {
                    reason: format!(
                        "{name} of {value:?} is not between {least:?} and {LONGEST_SETTING:?}"
                    ),
                });
            }
        }
        Ok(())
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL and the password stay out.
        f.debug_struct("ClientBuilder").finish_non_exhaustive()
    }
}
