//! The Java side: a JVM with the real Redisson, driven through `compat.Peer`.

use std::process::Command;
use std::time::Duration;

use tokio::time::timeout;

use crate::Result;
use crate::server::Server;
use crate::support::peer::{Answer, JavaPeer, PendingCall, compat};

pub(crate) const REDISSON: &str = "4.7.0";

/// Longer than any call of the demo takes, unless a wake-up got lost.
const PATIENCE: Duration = Duration::from_secs(20);

/// Starts the JVM, once it is clear that all it needs is there.
pub(crate) async fn start(server: &Server) -> Result<JavaPeer> {
    let classpath = compat(&format!("target/classpath-{REDISSON}.txt"));
    if !classpath.exists() {
        return Err(format!("{} is missing: run `make setup`", classpath.display()).into());
    }
    let arguments = server.peer_arguments()?;
    let more: Vec<&str> = arguments.more.iter().map(String::as_str).collect();
    Ok(JavaPeer::start_with(REDISSON, &arguments.url, &more).await)
}

/// As `java -version` tells it: `17.0.15`.
pub(crate) fn jdk_version() -> Result<String> {
    let output = Command::new("java")
        .arg("-version")
        .output()
        .map_err(|_| "java is missing: run `make setup`")?;
    let text = String::from_utf8_lossy(&output.stderr);
    Ok(text
        .split('"')
        .nth(1)
        .unwrap_or("of unknown version")
        .to_owned())
}

/// Waits for the answer to a call that has begun.
pub(crate) async fn answer(call: PendingCall, what: &str) -> Result<Answer> {
    match timeout(PATIENCE, call).await {
        Ok(result) => result.map_err(|error| format!("{what}: {error}").into()),
        Err(_) => Err(format!("{what}: no answer within {PATIENCE:?}").into()),
    }
}
