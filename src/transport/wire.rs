//! One connection for commands as its users see it: a question that stays unanswered ends with an error.
//!
//! A server answers a connection in the order of its questions. So a question is not lost as long as answers to earlier ones arrive: its
//! time begins anew with each of them. A burst of calls takes as long as the server needs, and only a silence ends it.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisResult, Value};
use tokio::time::{Instant, timeout_at};

use super::Command;

/// Clones share the connection.
#[derive(Clone)]
pub(super) struct Wire {
    connection: MultiplexedConnection,
    began: Instant,
    /// Microseconds from the beginning to the last answer.
    answered: Arc<AtomicU64>,
    response_timeout: Duration,
}

impl Wire {
    pub(super) fn new(connection: MultiplexedConnection, response_timeout: Duration) -> Self {
        Wire {
            connection,
            began: Instant::now(),
            answered: Arc::default(),
            response_timeout,
        }
    }

    /// The answer to a command. `asking`: to a server that is taking over the key's slot.
    pub(super) async fn send(&self, command: &Command, asking: bool) -> RedisResult<Value> {
        if !asking {
            return self.ask(command.packed()).await;
        }
        // The server lets the very next command in, so they must not be parted.
        let mut both = redis::pipe();
        both.cmd("ASKING").add_command(command.packed().clone());
        let mut connection = self.connection.clone();
        let answers = self.in_time(connection.send_packed_commands(&both, 1, 1));
        Ok(answers.await?.into_iter().next().unwrap_or(Value::Nil))
    }

    pub(super) async fn ask(&self, command: &Cmd) -> RedisResult<Value> {
        let mut connection = self.connection.clone();
        self.in_time(connection.send_packed_command(command)).await
    }

    async fn in_time<T>(&self, answer: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
        let mut answer = pin!(answer);
        let mut silent_since = Instant::now();
        loop {
            let limit = silent_since + self.response_timeout;
            if let Ok(answer) = timeout_at(limit, answer.as_mut()).await {
                if answer.is_ok() {
                    let micros = self.began.elapsed().as_micros() as u64;
                    self.answered.fetch_max(micros, Ordering::Relaxed);
                }
                return answer;
            }
            let micros = self.answered.load(Ordering::Relaxed);
            let answered = self.began + Duration::from_micros(micros);
            if answered <= silent_since {
                return Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
            }
            silent_since = answered;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;
    use redis::{AsyncConnectionConfig, RedisConnectionInfo};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::sleep;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(3);

    /// And the server's end.
    async fn wire() -> (Wire, DuplexStream) {
        let (ours, theirs) = duplex(1 << 16);
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let info = RedisConnectionInfo::default().set_skip_set_lib_name();
        let opened = MultiplexedConnection::new_with_config(&info, ours, config);
        let (connection, driver) = opened.await.unwrap();
        tokio::spawn(driver);
        (Wire::new(connection, PATIENCE), theirs)
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
    async fn a_burst_may_take_longer_than_one_answer() {
        let (wire, server) = wire().await;
        tokio::spawn(answer(server, 20, PATIENCE - Duration::from_millis(1)));
        let ping = redis::cmd("PING");
        let answers = join_all((0..20).map(|_| wire.ask(&ping))).await;
        assert!(answers.iter().all(|answer| answer.is_ok()), "{answers:?}");
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
        assert!(silence >= PATIENCE && silence < PATIENCE + Duration::from_millis(10));
    }
}
