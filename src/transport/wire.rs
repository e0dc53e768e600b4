//! One connection for commands as its users see it: a question that stays unanswered ends with an error.
//!
//! A server answers a connection in the order of its questions. So a question is not lost as long as answers to earlier ones arrive: its
//! time begins anew with each of them. A burst of calls takes as long as the server needs, up to the retry window; only a silence ends it
//! sooner.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, RedisConnectionInfo, RedisResult, Value};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use tokio_util::io::InspectReader;

use super::Command;
use crate::outside::Stream;

/// How long an answer may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// Behind the last one.
    pub(super) response_timeout: Duration,
    /// However many come before it.
    pub(super) retry_window: Duration,
}

/// Clones share the connection.
#[derive(Clone)]
pub(super) struct Wire {
    connection: MultiplexedConnection,
    began: Instant,
    /// Microseconds from the beginning to the last bytes of the server. Callers may be polled late, and not in order.
    heard: Arc<AtomicU64>,
    patience: Patience,
}

impl Wire {
    /// Takes over a stream on which the handshake is over. The future has to be polled for the connection to work, and ends when that has.
    pub(super) async fn new(
        stream: impl Stream + 'static,
        patience: Patience,
    ) -> RedisResult<(Self, BoxFuture<'static, ()>)> {
        let began = Instant::now();
        let heard = Arc::<AtomicU64>::default();
        let noted = Arc::clone(&heard);
        let stream = InspectReader::new(stream, move |_: &[u8]| {
            noted.store(began.elapsed().as_micros() as u64, Ordering::Relaxed);
        });
        let introduced = RedisConnectionInfo::default().set_skip_set_lib_name();
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            // A caller that waits for room, and is not polled then, would keep its place for ever.
            .set_pipeline_buffer_size(Semaphore::MAX_PERMITS);
        let opened = MultiplexedConnection::new_with_config(&introduced, stream, config);
        let (connection, driver) = opened.await?;
        let wire = Wire {
            connection,
            began,
            heard,
            patience,
        };
        Ok((wire, Box::pin(driver)))
    }

    /// The answer to a command, which may be an error of the server. `asking`: to a server that is taking over the key's slot.
    pub(super) async fn send(&self, command: &Command, asking: bool) -> RedisResult<Value> {
        if !asking {
            return self.exchange(command.packed()).await;
        }
        // The server lets the very next command in, so they must not be parted.
        let mut both = redis::pipe();
        both.cmd("ASKING").add_command(command.packed().clone());
        let mut connection = self.connection.clone();
        let answers = self.in_time(connection.send_packed_commands(&both, 1, 1));
        Ok(answers.await?.into_iter().next().unwrap_or(Value::Nil))
    }

    /// The same for a command of the transport itself; an error of the server is an error.
    pub(super) async fn ask(&self, command: &Cmd) -> RedisResult<Value> {
        self.exchange(command).await?.extract_error()
    }

    async fn exchange(&self, command: &Cmd) -> RedisResult<Value> {
        let mut connection = self.connection.clone();
        self.in_time(connection.send_packed_command(command)).await
    }

    async fn in_time<T>(&self, answer: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
        let Patience {
            response_timeout,
            retry_window,
        } = self.patience;
        let mut answer = pin!(answer);
        let asked = Instant::now();
        let latest = asked + retry_window.max(response_timeout);
        let mut limit = asked + response_timeout;
        loop {
            if let Ok(answer) = timeout_at(limit, answer.as_mut()).await {
                return answer;
            }
            let heard = Duration::from_micros(self.heard.load(Ordering::Relaxed));
            let next = latest.min(self.began + heard + response_timeout);
            if next <= limit {
                return Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
            }
            limit = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::future::join_all;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::sleep;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(3);

    /// And the server's end.
    async fn wire() -> (Wire, DuplexStream) {
        let (ours, theirs) = duplex(1 << 16);
        let patience = Patience {
            response_timeout: TIMEOUT,
            retry_window: 10 * TIMEOUT,
        };
        let (wire, driver) = Wire::new(ours, patience).await.unwrap();
        tokio::spawn(driver);
        (wire, theirs)
    }

    /// Answers as many calls at such a pace, and then none.
    async fn answer(mut server: DuplexStream, calls: usize, pace: Duration) {
        let mut asked = [0; 1024];
        assert!(server.read(&mut asked).await.unwrap() > 0);
        for _ in 0..calls {
            sleep(pace).await;
            server.write_all(b"+PONG\r\n").await.unwrap();
        }
        std::future::pending().await
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_may_take_longer_than_one_answer_but_not_for_ever() {
        let (wire, server) = wire().await;
        let pace = TIMEOUT - Duration::from_millis(1);
        tokio::spawn(answer(server, 20, pace));
        let ping = redis::cmd("PING");
        let began = Instant::now();
        let answers = join_all((0..20).map(|_| wire.ask(&ping))).await;
        let answered = answers.iter().filter(|answer| answer.is_ok()).count();
        assert_eq!(answered, 10);
        assert_eq!(began.elapsed().as_secs(), 30);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silence_ends_what_is_under_way() {
        let (wire, server) = wire().await;
        let pace = Duration::from_secs(2);
        tokio::spawn(answer(server, 3, pace));
        let ping = redis::cmd("PING");
        let began = Instant::now();
        let answers = join_all((0..5).map(|_| wire.ask(&ping))).await;
        let answered: Vec<_> = answers.iter().map(|answer| answer.is_ok()).collect();
        assert_eq!(answered, [true, true, true, false, false]);
        let silence = began.elapsed() - 3 * pace;
        assert!(silence >= TIMEOUT && silence < TIMEOUT + Duration::from_millis(10));
    }

    #[tokio::test(start_paused = true)]
    async fn callers_that_are_polled_late_hide_no_silence() {
        let (wire, server) = wire().await;
        tokio::spawn(answer(server, 5, Duration::from_millis(1)));
        let ping = redis::cmd("PING");
        let mut calls: Vec<_> = (0..5).map(|_| Box::pin(wire.ask(&ping))).collect();
        for call in &mut calls {
            assert!(call.now_or_never().is_none());
        }
        let other = wire.clone();
        let last = tokio::spawn(async move {
            let began = Instant::now();
            let answer = other.ask(&redis::cmd("PING")).await;
            (answer.is_ok(), began.elapsed())
        });
        for call in calls {
            sleep(TIMEOUT * 2 / 3).await;
            assert!(call.await.is_ok());
        }
        let (answered, silence) = last.await.unwrap();
        assert!(!answered && silence < TIMEOUT + Duration::from_millis(10));
    }
}
