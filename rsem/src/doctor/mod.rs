//! `rsem doctor`: is this server, and this user, fit for semaphores and locks?
//!
//! | File | What it holds |
//! |---|---|
//! | `mod.rs` | the findings, and how they are shown |
//! | `server.rs` | what the server says of itself |
//! | `grants.rs` | what its ACL lets the user do |
//! | `fair.rs` | locks that have waiters as fair locks |
//! | `records.rs` | how much the records beside the objects take |
//! | `watched.rs` | permits of clients that are gone, which no script has given back |

mod fair;
mod grants;
mod records;
mod server;
mod watched;

use clap::Args;
use serde_json::{Value, json};

use crate::connect::Connect;
use crate::exit::{self, Failure};
use crate::look::Looker;
use crate::look::show::plain;
use crate::say::say;

/// Look whether the server and its ACL are fit for semaphores and locks; each finding says what to do
///
/// Changes nothing. Looks at version, role, memory and eviction, persistence, replicas, clients, the clock, round trips, the
/// grants of the ACL, the size of the records, and for permits of clients that are gone; in a cluster at those of each master. The status is 1 if something is wrong.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// A semaphore that the user must be able to use; may be given several times. Without names only commands are looked at
    #[arg(short, long, value_name = "NAME")]
    semaphore: Vec<String>,

    /// A lock that the user must be able to use, and that must not be used as a fair lock; may be given several times
    #[arg(short, long, value_name = "NAME")]
    lock: Vec<String>,

    /// A read-write lock that the user must be able to use; may be given several times
    #[arg(long, value_name = "NAME")]
    read_write_lock: Vec<String>,

    /// The user whose grants to check, in place of one's own: only administrators may ask
    #[arg(long, value_name = "USER")]
    acl_user: Option<String>,

    /// Leave the records out: they are found by going through the names of all keys
    #[arg(long)]
    no_scan: bool,

    /// One JSON array
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Fine,
    /// Worth knowing; it works all the same.
    Note,
    Wrong,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Level::Fine => "fine",
            Level::Note => "note",
            Level::Wrong => "wrong",
        }
    }
}

/// The findings, and what to do about them.
#[derive(Debug)]
struct Finding {
    level: Level,
    about: &'static str,
    found: String,
    advice: Option<String>,
}

impl Finding {
    fn fine(about: &'static str, found: impl Into<String>) -> Self {
        Finding {
            level: Level::Fine,
            about,
            found: found.into(),
            advice: None,
        }
    }

    fn note(about: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Finding {
            level: Level::Note,
            advice: Some(advice.into()),
            ..Finding::fine(about, found)
        }
    }

    fn wrong(about: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Finding {
            level: Level::Wrong,
            ..Finding::note(about, found, advice)
        }
    }

    /// The same, with the master's name in front.
    fn at(mut self, master: Option<&str>) -> Self {
        if let Some(master) = master {
            self.found = format!("{master}: {}", self.found);
        }
        self
    }

    fn print(&self) {
        let level = match self.level {
            Level::Wrong => "WRONG",
            level => level.word(),
        };
        say(format_args!(
            "{level:<6} {:<12} {}",
            self.about,
            plain(&self.found)
        ));
        if let Some(advice) = &self.advice {
            say(format_args!("{:<20}-> {}", "", plain(advice)));
        }
    }

    fn as_json(&self) -> Value {
        let level = self.level.word();
        json!({"level": level, "about": self.about, "found": self.found, "advice": self.advice})
    }
}

impl Doctor {
    pub(crate) async fn carry_out(self, connect: &Connect) -> Result<u8, Failure> {
        let looker = Looker::new(connect.client().await?);
        let names = |names: &[String]| names.iter().map(|name| connect.mapped(name)).collect();
        let uses = grants::Uses {
            semaphores: names(&self.semaphore),
            locks: names(&self.lock),
            read_write_locks: names(&self.read_write_lock),
        };
        let mut findings = Vec::new();
        // Each master of a cluster has settings and users of its own.
        for looker in looker.each() {
            let mut found = server::examine(&looker).await;
            found.extend(grants::examine(&looker, self.acl_user.as_deref(), &uses).await);
            findings.extend(found.into_iter().map(|finding| finding.at(looker.master())));
        }
        findings.extend(fair::examine(&looker, &uses.locks).await);
        if !self.no_scan {
            findings.extend(records::examine(&looker).await);
        }
        if self.json {
            let all = findings.iter().map(Finding::as_json).collect();
            say(format_args!("{:#}", Value::Array(all)));
        } else {
            findings.iter().for_each(Finding::print);
        }
        let wrong = findings.iter().any(|finding| finding.level == Level::Wrong);
        Ok(if wrong { exit::NO } else { 0 })
    }
}
