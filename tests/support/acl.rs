//! What users of a server may do.

use redis::aio::MultiplexedConnection;

/// Sets a user's rules: its name first, then what `ACL SETUSER` takes.
pub async fn set_user(redis: &mut MultiplexedConnection, words: &[&str]) {
    let mut command = redis::cmd("ACL");
    command.arg("SETUSER").arg(words);
    let set: () = command
        .query_async(redis)
        .await
        .expect("rules that it knows");
    set
}
