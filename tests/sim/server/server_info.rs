//! Commands about the server itself.

use super::context::Context;
use super::reply::{Outcome, Reply};

pub fn time(context: &mut Context<'_>, _: &[&[u8]]) -> Outcome {
    let now = context.core.now;
    Ok(Reply::array([
        (now / 1_000_000).to_string(),
        (now % 1_000_000).to_string(),
    ]))
}

/// The role of a primary without replicas, or of a replica that looks for its primary.
pub fn role(context: &mut Context<'_>, _: &[&[u8]]) -> Outcome {
    Ok(Reply::Array(if context.core.faults.replica {
        vec![
            Reply::bulk("slave"),
            Reply::bulk("127.0.0.1"),
            Reply::Int(6379),
            Reply::bulk("connect"),
            Reply::Int(-1),
        ]
    } else {
        vec![
            Reply::bulk("master"),
            Reply::Int(0),
            Reply::Array(Vec::new()),
        ]
    }))
}

/// Only the version, the clients and the role.
pub fn info(context: &mut Context<'_>, _: &[&[u8]]) -> Outcome {
    let role = if context.core.faults.replica {
        "slave"
    } else {
        "master"
    };
    let clients = context.core.connections.len();
    Ok(Reply::bulk(format!(
        "# Server\r\nredis_version:7.0.15\r\n\r\n# Clients\r\nconnected_clients:{clients}\r\n\r\n\
         # Replication\r\nrole:{role}\r\n"
    )))
}
