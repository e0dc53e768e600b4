//! How the client introduces itself on a new connection.

use std::io;
use std::net::SocketAddr;

use redis::{Cmd, RedisResult, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::address::{Address, Login};
use super::failure::{Reason, Refusal};
use super::role::is_master;
use super::socket;
use super::tls::{self, Tls};
use crate::config::Protocol;
use crate::outside::Stream;

/// The expected answer to a command of the handshake.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    /// Anything but an error.
    Success,
    /// The same, from a server that may repeat the password in it.
    Login,
    /// That it is a master.
    Master,
    /// An ACL may forbid it, but the server has to be ready.
    Readiness,
    /// That the server knows the command, and this user may send it.
    Wait,
    /// It is for the reader of `CLIENT LIST` only.
    Nothing,
}

/// Address, user and protocol of a connection.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) address: &'a Address,
    /// Where its name leads, where that is known.
    pub(super) peer: Option<SocketAddr>,
    pub(super) tls: Option<&'a Tls>,
    pub(super) login: &'a Login,
    pub(super) client_name: Option<&'a str>,
    /// Whether a replica will not do.
    pub(super) master: bool,
    /// Whether replicas will be waited for.
    pub(super) replicas: bool,
}

/// A server as it was found: its name may lead to another one from one moment to the next.
#[derive(Debug, Clone)]
pub(super) struct Server {
    pub(super) address: Address,
    pub(super) peer: Option<SocketAddr>,
}

/// A connection, and where it leads.
pub(super) type Entered = (Server, Box<dyn Stream>);

impl Entry<'_> {
    /// Connects, logs in, selects the database, sets the client's name, and sees that the server is ready: one that is
    /// loading its data, or wants a password, accepts a connection all the same.
    pub(super) async fn enter(&self) -> Result<Entered, Refusal> {
        let connected = socket::connect(self.address, self.peer, self.tls).await;
        let (mut stream, peer) = connected.map_err(|error| tls::refusal(&error))?;
        let (commands, needs): (Vec<_>, Vec<_>) = self.commands().into_iter().unzip();
        let answers = exchange(&mut stream, &commands).await?;
        for (answer, need) in answers.into_iter().zip(needs) {
            let answer = answer.map_err(|error| Refusal::at_connect(&error));
            match (need, answer) {
                (Need::Master, Ok(role)) => self.check(&role)?,
                (Need::Login, Err(refusal)) => return Err(self.not_let_in(refusal)),
                (Need::Success | Need::Master, Err(refusal)) => return Err(refusal),
                (Need::Wait, Err(refusal))
                    if refusal.reason == Reason::Permission || is_unknown(&refusal) =>
                {
                    let detail = format!("{} (wait_for_replicas needs it)", refusal.detail);
                    return Err(Refusal { detail, ..refusal });
                }
                (Need::Readiness, Err(refusal)) if refusal.reason != Reason::Permission => {
                    return Err(refusal);
                }
                _ => {}
            }
        }
        let address = self.address.clone();
        Ok((Server { address, peer }, stream))
    }

    /// A server that does not know a command repeats its arguments.
    fn not_let_in(&self, refusal: Refusal) -> Refusal {
        let Refusal { reason, detail } = &refusal;
        if !is_unknown(&refusal) && !detail.starts_with("NOPROTO") {
            return refusal;
        }
        let detail = match self.login.protocol {
            Protocol::Resp2 => "the server does not know AUTH",
            Protocol::Resp3 => "the server does not know HELLO 3: it is spoken to by RESP2",
        };
        Refusal {
            reason: *reason,
            detail: detail.to_owned(),
        }
    }

    /// The answer to `ROLE` begins with it.
    fn check(&self, role: &Value) -> Result<(), Refusal> {
        match is_master(role) {
            true => Ok(()),
            false => Err(Refusal::no_master(self.address)),
        }
    }

    fn commands(&self) -> Vec<(Cmd, Need)> {
        let login = self.login;
        let mut commands = Vec::new();
        let command = |words: &[&str]| {
            let mut command = Cmd::new();
            command.arg(words);
            command
        };
        // Without a password it is for the server to say whether the user needs one.
        let password = login.password.as_deref().unwrap_or_default();
        let user = match (&login.username, &login.password) {
            (None, None) => None,
            (username, _) => Some(username.as_deref()),
        };
        let words: &[&str] = match (login.protocol, user) {
            (Protocol::Resp2, None) => &[],
            (Protocol::Resp2, Some(None)) => &["AUTH", password],
            (Protocol::Resp2, Some(Some(user))) => &["AUTH", user, password],
            (Protocol::Resp3, None) => &["HELLO", "3"],
            (Protocol::Resp3, Some(user)) => {
                &["HELLO", "3", "AUTH", user.unwrap_or("default"), password]
            }
        };
        if !words.is_empty() {
            commands.push((command(words), Need::Login));
        }
        if login.database != 0 {
            let database = login.database.to_string();
            commands.push((command(&["SELECT", &database]), Need::Success));
        }
        if let Some(name) = self.client_name {
            commands.push((command(&["CLIENT", "SETNAME", name]), Need::Nothing));
        }
        for (key, value) in [
            ("LIB-NAME", env!("CARGO_PKG_NAME")),
            ("LIB-VER", env!("CARGO_PKG_VERSION")),
        ] {
            commands.push((command(&["CLIENT", "SETINFO", key, value]), Need::Nothing));
        }
        commands.push((command(&["PING"]), Need::Readiness));
        if self.master {
            commands.push((command(&["ROLE"]), Need::Master));
        }
        if self.replicas {
            // It waits for none.
            commands.push((command(&["WAIT", "0", "1"]), Need::Wait));
        }
        commands
    }
}

fn is_unknown(refusal: &Refusal) -> bool {
    refusal.detail.starts_with("ERR unknown command")
}

/// Sends `commands` and takes the answers, which may be errors.
pub(super) async fn exchange(
    stream: &mut Box<dyn Stream>,
    commands: &[Cmd],
) -> Result<Vec<RedisResult<Value>>, Refusal> {
    let mut packed = Vec::new();
    for command in commands {
        packed.extend(command.get_packed_command());
    }
    let beginning = ask(stream, &packed).await;
    let beginning = beginning.map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
            Refusal::unreachable(SILENT_END)
        }
        _ => tls::refusal(&error),
    })?;
    let mut replies = beginning.as_slice().chain(stream);
    let mut decoder = Default::default();
    let mut answers = Vec::with_capacity(commands.len());
    for _ in commands {
        let answer = redis::parse_redis_value_async(&mut decoder, &mut replies).await;
        // An answer that is an error, and a connection that ends.
        let answer: Value = answer.map_err(|error| Refusal::at_connect(&error))?;
        answers.push(answer.extract_error());
    }
    Ok(answers)
}

/// A server with TLS does the same on a connection without it.
const SILENT_END: &str = "the server has closed the connection without a word (one that wants TLS does that to redis://)";

/// Sends `commands`; the beginning of what is answered, which is not empty.
async fn ask(stream: &mut Box<dyn Stream>, commands: &[u8]) -> io::Result<Vec<u8>> {
    stream.write_all(commands).await?;
    stream.flush().await?;
    let mut beginning = Vec::new();
    if stream.read_buf(&mut beginning).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(beginning)
}
