//! How the client introduces itself on a new connection.

use std::io;

use redis::{Cmd, RedisResult, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::address::Login;
use super::failure::{Reason, Refusal};
use super::tls;
use crate::outside::Stream;

/// What a command of the introduction has to be answered with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    /// Anything but an error.
    Success,
    /// An ACL may forbid it, but the server has to be ready.
    Readiness,
    /// It is for the reader of `CLIENT LIST` only.
    Nothing,
}

/// Logs in, selects the database, tells the client's name, and sees that the server is ready: one that is loading
/// its data, or wants a password, accepts a connection all the same.
pub(super) async fn introduce(
    stream: &mut Box<dyn Stream>,
    login: &Login,
    client_name: Option<&str>,
) -> Result<(), Refusal> {
    let commands = commands(login, client_name);
    let mut packed = Vec::new();
    for (command, _) in &commands {
        packed.extend(command.get_packed_command());
    }
    let beginning = ask(stream, &packed).await;
    let beginning = beginning.map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
            Refusal::unreachable(SILENT_END)
        }
        _ => tls::refusal(&error),
    })?;
    let mut answers = beginning.as_slice().chain(stream);
    let mut decoder = Default::default();
    for (_, need) in commands {
        let answer: RedisResult<Value> =
            redis::parse_redis_value_async(&mut decoder, &mut answers).await;
        // An answer that is an error, and a connection that ends.
        let answer = match answer {
            Ok(answer) => answer.extract_error(),
            Err(error) => return Err(Refusal::at_connect(&error)),
        };
        let Err(error) = answer else { continue };
        let refusal = Refusal::at_connect(&error);
        match need {
            Need::Success => return Err(refusal),
            Need::Readiness if refusal.reason != Reason::Permission => return Err(refusal),
            Need::Readiness | Need::Nothing => {}
        }
    }
    Ok(())
}

/// What a server does, too, that is spoken to without the TLS that it wants.
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

fn commands(login: &Login, client_name: Option<&str>) -> Vec<(Cmd, Need)> {
    let mut commands = Vec::new();
    let command = |words: &[&str]| {
        let mut command = Cmd::new();
        command.arg(words);
        command
    };
    match (&login.username, &login.password) {
        (None, None) => {}
        (None, Some(password)) => commands.push((command(&["AUTH", password]), Need::Success)),
        (Some(username), password) => {
            // Without a password it is for the server to say whether the user needs one.
            let password = password.as_deref().unwrap_or_default();
            commands.push((command(&["AUTH", username, password]), Need::Success));
        }
    }
    if login.database != 0 {
        let database = login.database.to_string();
        commands.push((command(&["SELECT", &database]), Need::Success));
    }
    if let Some(name) = client_name {
        commands.push((command(&["CLIENT", "SETNAME", name]), Need::Nothing));
    }
    for (key, value) in [
        ("LIB-NAME", env!("CARGO_PKG_NAME")),
        ("LIB-VER", env!("CARGO_PKG_VERSION")),
    ] {
        commands.push((command(&["CLIENT", "SETINFO", key, value]), Need::Nothing));
    }
    commands.push((command(&["PING"]), Need::Readiness));
    commands
}
