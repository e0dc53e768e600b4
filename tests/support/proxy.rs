//! A TCP proxy in front of a server, which loses exactly the bytes that a test wants lost.
//!
//! The proxy reads both directions as Redis frames, so it can count the script calls (`EVAL`, `EVALSHA`) of all
//! its connections and tell which reply belongs to which of them. As TCP does, it never loses something
//! from the middle of a stream: a connection that has lost one reply carries no further ones.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use super::monitor::forgets;
use super::server::RedisServer;
use super::waiters::until;

const DEADLINE: Duration = Duration::from_secs(20);

/// The fate of one script call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The server carries the call out. Instead of the reply the client sees the connection end.
    LoseReplyAndClose,
    /// The server carries the call out. The client gets no reply, and nothing more on this connection.
    LoseReply,
    /// The server never gets the call. Instead of a reply the client sees the connection end.
    LoseRequest,
    /// The server gets the call, and the requests after it on its connection, only at [`Proxy::deliver`], even when the
    /// client has closed the connection by then.
    HoldRequest,
    /// The server carries the call out. The client gets the reply, and the replies after it on its connection, only at
    /// [`Proxy::deliver`].
    HoldReply,
}

/// Both fates that lose a reply, in the order in which they are tested.
pub const LOST_REPLIES: [Fate; 2] = [Fate::LoseReplyAndClose, Fate::LoseReply];

/// The fate of everything that passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weather {
    Clear,
    /// Requests pass, replies do not.
    Mute,
    /// Nothing passes on connections for messages.
    Deaf,
    /// Nothing passes.
    Black,
}

/// A running proxy; dropping it closes all its connections.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    acceptor: AbortHandle,
}

struct Shared {
    target: AtomicU16,
    state: Mutex<State>,
    weather: watch::Sender<Weather>,
    /// Rises with each [`Proxy::cut`].
    cuts: watch::Sender<u64>,
    /// Rises with each [`Proxy::deliver`].
    deliveries: watch::Sender<u64>,
    opened: AtomicU64,
    /// Replies and messages that were lost to the weather.
    lost: AtomicU64,
    /// Requests that have passed, and whose replies have not.
    unanswered: AtomicU64,
    /// The delay of all replies, in milliseconds.
    late: AtomicU64,
}

#[derive(Default)]
struct State {
    scripts: u64,
    fates: HashMap<u64, Fate>,
    of_forget: Option<Fate>,
    struck: u64,
    delivered: u64,
}

impl Proxy {
    pub async fn start(server: &RedisServer) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let shared = Arc::new(Shared {
            target: AtomicU16::new(server.port()),
            state: Mutex::default(),
            weather: watch::Sender::new(Weather::Clear),
            cuts: watch::Sender::new(0),
            deliveries: watch::Sender::new(0),
            opened: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            unanswered: AtomicU64::new(0),
            late: AtomicU64::new(0),
        });
        let acceptor = tokio::spawn(accept(listener, Arc::clone(&shared))).abort_handle();
        Proxy {
            port,
            shared,
            acceptor,
        }
    }

    /// The URL for the code under test: the default user without password.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The address as the log has it.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Leads new connections to another server from now on. Existing connections stay.
    pub fn lead_to(&self, server: &RedisServer) {
        self.shared.target.store(server.port(), Ordering::SeqCst);
    }

    /// Delays each reply on new connections by `time` from now on, as if the server were far away. Replies under way
    /// do not delay each other.
    pub fn set_round_trip(&self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).expect("it is short");
        self.shared.late.store(millis, Ordering::SeqCst);
    }

    /// The URL for a user of the server.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("redis://{user}:{password}@127.0.0.1:{}", self.port)
    }

    /// How many script calls have come from clients so far.
    pub fn scripts(&self) -> u64 {
        self.shared.lock().scripts
    }

    /// How many connections have been opened so far.
    pub fn opened(&self) -> u64 {
        self.shared.opened.load(Ordering::SeqCst)
    }

    /// How many replies and messages have been lost while nothing passed.
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::SeqCst)
    }

    /// Waits until the replies to all requests have passed.
    pub async fn until_answered(&self) {
        until("all requests are answered", DEADLINE, async || {
            self.shared.unanswered.load(Ordering::SeqCst) == 0
        })
        .await;
    }

    /// Sets the fate of the `n`-th script call from now on; the next call is the first.
    pub fn at_script(&self, n: u64, fate: Fate) {
        let mut state = self.shared.lock();
        let number = state.scripts + n;
        state.fates.insert(number, fate);
    }

    /// Sets the fate of the next script that deletes unused records. Such scripts are not counted with the others.
    pub fn at_forget(&self, fate: Fate) {
        self.shared.lock().of_forget = Some(fate);
    }

    /// Removes the fates of all script calls to come.
    pub fn clear_fates(&self) {
        self.shared.lock().fates.clear();
    }

    /// How many fates have been fulfilled: the reply has been lost (so the server has carried the call
    /// out), or the request is lost or held.
    pub fn struck(&self) -> u64 {
        self.shared.lock().struck
    }

    /// Waits until `count` fates have been fulfilled in all.
    pub async fn until_struck(&self, count: u64) {
        until(&format!("{count} calls are hit"), DEADLINE, async || {
            self.struck() >= count
        })
        .await;
    }

    /// Waits until the clients have made `count` script calls in all.
    pub async fn until_scripts(&self, count: u64) {
        until(&format!("{count} script calls"), DEADLINE, async || {
            self.scripts() >= count
        })
        .await;
    }

    /// Lets everything that is held go on. Returns when `held` requests have been carried out or replies sent.
    pub async fn deliver(&self, held: u64) {
        let before = self.shared.lock().delivered;
        self.let_go();
        until(&format!("{held} held calls go on"), DEADLINE, async || {
            self.shared.lock().delivered >= before + held
        })
        .await;
    }

    /// Lets everything that is held go on, without waiting for the result.
    pub fn let_go(&self) {
        self.shared.deliveries.send_modify(|count| *count += 1);
    }

    /// Closes all connections, on both sides.
    pub fn cut(&self) {
        self.shared.cuts.send_modify(|count| *count += 1);
    }

    /// Loses replies from now on, also on new connections. Requests pass.
    pub fn mute(&self) {
        self.shared.weather.send_replace(Weather::Mute);
    }

    /// Loses everything from now on. Connections can still be opened.
    pub fn blackhole(&self) {
        self.shared.weather.send_replace(Weather::Black);
    }

    /// Loses everything from now on where a connection has subscribed to a channel, or subscribes later.
    pub fn deafen(&self) {
        self.shared.weather.send_replace(Weather::Deaf);
    }

    /// Ends [`mute`](Self::mute), [`blackhole`](Self::blackhole) and [`deafen`](Self::deafen). Connections that have lost
    /// something are closed.
    pub fn clear(&self) {
        self.shared.weather.send_replace(Weather::Clear);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.acceptor.abort();
        self.cut();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic under this lock")
    }

    fn weather(&self) -> Weather {
        *self.weather.borrow()
    }

    /// Counts a request that is a script call, and returns its fate.
    fn fate_of(&self, request: &[u8]) -> Option<Fate> {
        if !is_script_call(request) {
            return None;
        }
        if is_forgetting(request) {
            return self.lock().of_forget.take();
        }
        let mut state = self.lock();
        state.scripts += 1;
        let number = state.scripts;
        state.fates.remove(&number)
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        shared.opened.fetch_add(1, Ordering::SeqCst);
        // Subscribed here, so that a cut from now on is seen.
        let mut cuts = shared.cuts.subscribe();
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            tokio::select! {
                _ = cuts.changed() => {}
                () = carry(client, shared) => {}
            }
        });
    }
}

/// Carries one connection, from its beginning to its end.
async fn carry(client: TcpStream, shared: Arc<Shared>) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", shared.target.load(Ordering::SeqCst))).await
    else {
        return;
    };
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let late = Duration::from_millis(shared.late.load(Ordering::SeqCst));
    let link = Link {
        shared,
        awaited: Mutex::default(),
        lossy: watch::Sender::new(false),
        listens: AtomicBool::new(false),
        closed: Notify::new(),
    };
    let down = async {
        if late.is_zero() {
            return link.down(from_server, to_client).await;
        }
        let (far, near) = tokio::io::duplex(1 << 20);
        tokio::join!(hold_up(from_server, far, late), link.down(near, to_client));
    };
    tokio::select! {
        _ = async { tokio::join!(link.up(from_client, to_server), down) } => {}
        () = link.closed.notified() => {}
        () = link.until_cleared() => {}
    }
}

/// Passes everything on, each piece `late` after it came.
async fn hold_up(mut from: OwnedReadHalf, mut to: DuplexStream, late: Duration) {
    let (queue, mut queued) = mpsc::unbounded_channel();
    let reading = async move {
        loop {
            let mut bytes = Vec::new();
            match from.read_buf(&mut bytes).await {
                Ok(read) if read > 0 => {
                    let _ = queue.send((Instant::now() + late, bytes));
                }
                // The end follows the queued pieces.
                _ => return,
            }
        }
    };
    let writing = async move {
        while let Some((due, bytes)) = queued.recv().await {
            sleep_until(due).await;
            let _ = to.write_all(&bytes).await;
        }
    };
    tokio::join!(reading, writing);
}

struct Link {
    shared: Arc<Shared>,
    /// The fates of the replies that are still to come, in their order.
    awaited: Mutex<VecDeque<Option<Fate>>>,
    /// Whether something has been lost: nothing may follow then.
    lossy: watch::Sender<bool>,
    /// Whether the connection is for messages.
    listens: AtomicBool,
    closed: Notify,
}

impl Link {
    /// Whether nothing passes here now.
    fn is_black(&self) -> bool {
        match self.shared.weather() {
            Weather::Black => true,
            Weather::Deaf => self.listens.load(Ordering::SeqCst),
            Weather::Clear | Weather::Mute => false,
        }
    }

    /// Whether replies are lost here now.
    fn is_mute(&self) -> bool {
        self.is_black() || self.shared.weather() == Weather::Mute
    }

    /// Returns when the weather has cleared after something was lost to it.
    async fn until_cleared(&self) {
        let mut lossy = self.lossy.subscribe();
        let mut weather = self.shared.weather.subscribe();
        let _ = lossy.wait_for(|lossy| *lossy).await;
        let _ = weather.wait_for(|weather| *weather == Weather::Clear).await;
    }

    fn awaited(&self) -> MutexGuard<'_, VecDeque<Option<Fate>>> {
        self.awaited.lock().expect("no panic under this lock")
    }

    async fn up(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let mut bytes = Vec::new();
        loop {
            let Some(length) = frame(&bytes) else {
                match from.read_buf(&mut bytes).await {
                    Ok(read) if read > 0 => continue,
                    // The server sees the end when `to` is dropped.
                    _ => return,
                }
            };
            let request: Vec<u8> = bytes.drain(..length).collect();
            if name_of(&request).eq_ignore_ascii_case(b"SUBSCRIBE") {
                self.listens.store(true, Ordering::SeqCst);
            }
            if self.is_black() {
                self.lossy.send_replace(true);
                continue;
            }
            let fate = self.shared.fate_of(&request);
            if fate == Some(Fate::LoseRequest) {
                self.shared.lock().struck += 1;
                self.closed.notify_one();
                return std::future::pending().await;
            }
            if fate == Some(Fate::HoldRequest) {
                let mut deliveries = self.shared.deliveries.subscribe();
                self.shared.lock().struck += 1;
                if deliveries.changed().await.is_err() {
                    return;
                }
            }
            self.shared.unanswered.fetch_add(1, Ordering::SeqCst);
            self.awaited().push_back(fate);
            if to.write_all(&request).await.is_err() {
                return;
            }
        }
    }

    async fn down(&self, mut from: impl AsyncRead + Unpin, mut to: OwnedWriteHalf) {
        let mut bytes = Vec::new();
        let mut mute = false;
        loop {
            let Some(length) = frame(&bytes) else {
                match from.read_buf(&mut bytes).await {
                    Ok(read) if read > 0 => continue,
                    // The server has closed the connection.
                    _ => {
                        self.closed.notify_one();
                        return;
                    }
                }
            };
            let reply: Vec<u8> = bytes.drain(..length).collect();
            let fate = self.awaited().front().copied().flatten();
            match fate {
                None => {}
                Some(Fate::HoldRequest) => self.shared.lock().delivered += 1,
                Some(Fate::HoldReply) => {
                    let mut deliveries = self.shared.deliveries.subscribe();
                    self.shared.lock().struck += 1;
                    if deliveries.changed().await.is_err() {
                        return;
                    }
                    self.shared.lock().delivered += 1;
                }
                Some(fate) => {
                    mute = true;
                    self.shared.lock().struck += 1;
                    if fate == Fate::LoseReplyAndClose {
                        self.closed.notify_one();
                    }
                }
            }
            if self.is_mute() {
                self.lossy.send_replace(true);
                self.shared.lost.fetch_add(1, Ordering::SeqCst);
            }
            if !mute && !*self.lossy.borrow() {
                // A client that has gone needs no reply, but its requests are still carried out.
                let _ = to.write_all(&reply).await;
            }
            // A message to a subscriber is no reply.
            if self.awaited().pop_front().is_some() {
                self.shared.unanswered.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let awaited = self.awaited.get_mut().expect("no panic under this lock");
        let left = awaited.len() as u64;
        self.shared.unanswered.fetch_sub(left, Ordering::SeqCst);
    }
}

/// The length of the first complete frame.
fn frame(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let mut length = end + 2;
    let number = || {
        let text = std::str::from_utf8(&bytes[1..end]).ok()?;
        text.parse::<i64>().ok()
    };
    match bytes[0] {
        b'$' | b'=' | b'!' => {
            if let Ok(body) = usize::try_from(number()?) {
                length += body + 2;
            }
        }
        kind @ (b'*' | b'~' | b'>' | b'%') => {
            let items = number()?.max(0) * if kind == b'%' { 2 } else { 1 };
            for _ in 0..items {
                length += frame(bytes.get(length..)?)?;
            }
        }
        _ => {}
    }
    (bytes.len() >= length).then_some(length)
}

/// The name of a command, which follows `*n` and `$length`.
fn name_of(request: &[u8]) -> &[u8] {
    let name = request.split(|byte| *byte == b'\n').nth(2);
    name.unwrap_or_default().trim_ascii_end()
}

fn is_script_call(request: &[u8]) -> bool {
    let name = name_of(request);
    name.eq_ignore_ascii_case(b"EVAL") || name.eq_ignore_ascii_case(b"EVALSHA")
}

/// Whether the script call deletes unused records.
fn is_forgetting(request: &[u8]) -> bool {
    let script = request.split(|byte| *byte == b'\n').nth(4);
    let script = str::from_utf8(script.unwrap_or_default()).unwrap_or_default();
    forgets(script.trim_end())
}
