//! The rights of a server's users.

use redis::aio::MultiplexedConnection;

/// Sets a user's rules: its name first, then the arguments of `ACL SETUSER`.
pub async fn set_user(redis: &mut MultiplexedConnection, words: &[&str]) {
    let mut command = redis::cmd("ACL");
    command.arg("SETUSER").arg(words);
    let set: () = command
        .query_async(redis)
        .await
        .expect("rules that it knows");
    set
}

/// The guide's commands that grant the rights for something, after the words that introduce them.
pub fn grants(introduction: &str) -> Vec<&'static str> {
    let guide = include_str!("../../src/guide/operations.md");
    let (_, behind) = guide.split_once(introduction).expect(introduction);
    let (_, block) = behind.split_once("```text\n").expect("a block");
    let (block, _) = block.split_once("```").expect("its end");
    let lines = block.lines().map(|line| {
        let rules = line.strip_prefix("ACL SETUSER app ");
        rules.expect("a command for the user `app`")
    });
    lines.collect()
}
