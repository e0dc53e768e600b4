//! How the client introduces itself on a new connection.

use redis::{Cmd, RedisError, RedisResult, Value};
use tokio::io::AsyncWriteExt;

use super::address::Login;
use super::failure::{Reason, Refusal};
use super::socket::Socket;

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
    socket: &mut Socket,
    login: &Login,
    client_name: Option<&str>,
) -> Result<(), Refusal> {
    let commands = commands(login, client_name);
    let mut packed = Vec::new();
    for (command, _) in &commands {
        packed.extend(command.get_packed_command());
    }
    let lost = |error: RedisError| Refusal::at_connect(&error);
    socket
        .write_all(&packed)
        .await
        .map_err(|error| lost(error.into()))?;
    let mut decoder = Default::default();
    for (_, need) in commands {
        let answer: RedisResult<Value> = redis::parse_redis_value_async(&mut decoder, socket).await;
        // An answer that is an error, and a connection that ends.
        let answer = match answer {
            Ok(answer) => answer.extract_error(),
            Err(error) => return Err(lost(error)),
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
