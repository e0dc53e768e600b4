//! A stream by TLS that gathers what is to be written while the server is busy.
//!
//! Each write becomes a record, and a server reads one record at a time: it asks the network twice for each, and answers each with
//! a write. Of plain bytes it takes all that has come meanwhile. So a connection with many callers would cost it several
//! times as much by TLS. Here up to [`AHEAD`] records are on their way without an answer, and the server is never without work;
//! what comes meanwhile goes together, as soon as something is answered, or there is enough for a record, or it has waited
//! for [`LONGEST`]. Who is alone never waits.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// So many records are written before anything is answered.
const AHEAD: u32 = 2;
/// So many bytes do not wait.
const ENOUGH: usize = 8 * 1024;
/// Nothing waits for longer: the server may be far away.
const LONGEST: Duration = Duration::from_millis(1);

pub(super) struct Gathering<S> {
    stream: S,
    /// What is still to be written.
    gathered: Vec<u8>,
    /// So much of that has been.
    written: usize,
    /// Records since something was read last.
    unanswered: u32,
    /// When what is gathered is written in any case.
    due: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Gathering<S> {
    pub(super) fn new(stream: S) -> Self {
        Gathering {
            stream,
            gathered: Vec::new(),
            written: 0,
            unanswered: 0,
            due: None,
        }
    }

    /// Whether what is gathered may wait for more.
    fn waits(&mut self, cx: &mut Context<'_>) -> bool {
        let begun = self.written > 0 || self.gathered.is_empty();
        if begun || self.unanswered < AHEAD || self.gathered.len() >= ENOUGH {
            return false;
        }
        let due = self.due.get_or_insert_with(|| Box::pin(sleep(LONGEST)));
        due.as_mut().poll(cx).is_pending()
    }

    fn poll_write_gathered(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let rest @ [_, ..] = &self.gathered[self.written..] {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.written += count,
            }
        }
        if self.written > 0 {
            self.gathered.clear();
            (self.written, self.due) = (0, None);
            self.unanswered = self.unanswered.saturating_add(1);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Gathering<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        if buffer.filled().len() > before {
            self.unanswered = 0;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Gathering<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.written > 0 || self.gathered.len() >= ENOUGH {
            ready!(self.poll_write_gathered(cx))?;
        }
        self.gathered.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.waits(cx) {
            return Poll::Pending;
        }
        ready!(self.poll_write_gathered(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_write_gathered(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    fn connection() -> (Gathering<DuplexStream>, DuplexStream) {
        let (ours, server) = duplex(1024 * 1024);
        (Gathering::new(ours), server)
    }

    /// Whether it was written at once.
    async fn send(stream: &mut Gathering<DuplexStream>, bytes: &[u8]) -> bool {
        stream.write_all(bytes).await.unwrap();
        stream.flush().now_or_never().is_some()
    }

    /// All that has come.
    async fn come(server: &mut DuplexStream) -> usize {
        let mut bytes = vec![0; 1024 * 1024];
        server
            .read(&mut bytes)
            .now_or_never()
            .map_or(0, Result::unwrap)
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_behind_two_records_waits_for_an_answer() {
        let (mut stream, mut server) = connection();
        for _ in 0..AHEAD {
            assert!(send(&mut stream, b"first").await);
        }
        assert_eq!(come(&mut server).await, 10);
        assert!(!send(&mut stream, b"later").await);
        assert!(!send(&mut stream, b"later").await);
        assert_eq!(come(&mut server).await, 0);
        server.write_all(b"+").await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'+');
        stream.flush().await.unwrap();
        assert_eq!(come(&mut server).await, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_waits_for_long_and_enough_does_not_wait() {
        let (mut stream, mut server) = connection();
        for _ in 0..AHEAD {
            assert!(send(&mut stream, b"first").await);
        }
        assert!(!send(&mut stream, b"later").await);
        let began = tokio::time::Instant::now();
        stream.flush().await.unwrap();
        assert!(began.elapsed() >= LONGEST && began.elapsed() < 3 * LONGEST);
        assert_eq!(come(&mut server).await, 15);
        assert!(!send(&mut stream, &[0; ENOUGH / 2]).await);
        assert!(send(&mut stream, &[0; ENOUGH / 2]).await);
        assert_eq!(come(&mut server).await, ENOUGH);
        assert!(!send(&mut stream, b"last").await);
        stream.shutdown().await.unwrap();
        assert_eq!(come(&mut server).await, 4);
    }

    #[tokio::test]
    async fn a_stream_that_is_full_takes_the_rest_later() {
        let (ours, mut server) = duplex(10);
        let mut stream = Gathering::new(ours);
        stream.write_all(&[7; 3 * ENOUGH]).now_or_never();
        let mut all = Vec::new();
        let sending = async {
            stream.flush().await.unwrap();
            stream.shutdown().await.unwrap();
        };
        let (_, count) = tokio::join!(sending, server.read_to_end(&mut all));
        assert_eq!(count.unwrap(), all.len());
        assert!(all.iter().all(|byte| *byte == 7) && all.len() == 3 * ENOUGH);
    }
}
