//! The clients' ends of connections: streams without a socket. The [world](super::world) decides what happens between them and the server.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use redisson_semaphore::outside::{Connecting, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, oneshot};

/// The actions of clients that the world has not yet seen.
#[derive(Clone, Default)]
pub struct Doings {
    shared: Arc<Mutex<Done>>,
    bell: Arc<Notify>,
}

#[derive(Default)]
pub struct Done {
    pub dials: Vec<Dial>,
    /// The connections that were written to, or closed.
    pub touched: Vec<usize>,
}

/// A client wants to connect.
pub struct Dial {
    pub host: String,
    pub port: u16,
    pub answer: oneshot::Sender<io::Result<End>>,
}

impl Doings {
    /// Takes the actions since the last time.
    pub fn take(&self) -> Done {
        mem::take(&mut *self.shared.lock().unwrap())
    }

    pub async fn heard(&self) {
        self.bell.notified().await;
    }

    fn note(&self, done: impl FnOnce(&mut Done)) {
        done(&mut self.shared.lock().unwrap());
        self.bell.notify_one();
    }

    /// Connects from the host that the address names: each client has its own name for the server.
    pub fn dial(&self, address: &str) -> Connecting {
        let (host, port) = address.split_once(':').expect("host and port");
        let (host, port) = (host.to_owned(), port.parse().expect("a port"));
        let doings = self.clone();
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            doings.note(|done| done.dials.push(Dial { host, port, answer }));
            // A world that has ended does not answer.
            let end = answered
                .await
                .unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))?;
            Ok(Box::new(end) as Box<dyn Stream>)
        })
    }
}

/// The state that both ends of a connection share.
#[derive(Clone)]
pub struct Wire {
    pub number: usize,
    state: Arc<Mutex<State>>,
}

pub struct State {
    /// Written by the client, and not yet on its way.
    pub sent: Vec<Vec<u8>>,
    /// Bytes that have arrived for the client.
    pub inbox: VecDeque<u8>,
    /// The server has closed the connection, after the bytes in the inbox.
    pub ended: bool,
    /// Nothing is read or written any more.
    pub broken: bool,
    /// Closed by the client.
    pub closed: bool,
    reader: Option<Waker>,
}

impl Wire {
    pub fn new(number: usize) -> Wire {
        let state = State {
            sent: Vec::new(),
            inbox: VecDeque::new(),
            ended: false,
            broken: false,
            closed: false,
            reader: None,
        };
        Wire {
            number,
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Returns the client's end. The connection is closed when that is dropped.
    pub fn end(self, doings: &Doings) -> End {
        let doings = doings.clone();
        End { wire: self, doings }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Changes the state, and wakes the client's reader.
    pub fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let changed = change(&mut state);
        let reader = state.reader.take();
        drop(state);
        reader.into_iter().for_each(Waker::wake);
        changed
    }
}

/// The client's end of a connection.
pub struct End {
    wire: Wire,
    doings: Doings,
}

impl AsyncRead for End {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.wire.lock();
        if !state.inbox.is_empty() {
            let count = buffer.remaining().min(state.inbox.len());
            let bytes: Vec<u8> = state.inbox.drain(..count).collect();
            buffer.put_slice(&bytes);
            return Poll::Ready(Ok(()));
        }
        if state.broken {
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        if state.ended {
            return Poll::Ready(Ok(()));
        }
        state.reader = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl AsyncWrite for End {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.wire.lock();
        if state.broken {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        state.sent.push(bytes.to_vec());
        drop(state);
        self.doings.note(|done| done.touched.push(self.wire.number));
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.wire.lock().closed = true;
        self.doings.note(|done| done.touched.push(self.wire.number));
    }
}
