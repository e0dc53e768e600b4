//! The meaning of a failed attempt: was it carried out, and is it worth another one?

use std::fmt;
use std::time::Duration;

use redis::RedisError;

use super::Value;
use super::address::Address;
use crate::clock::Moment;
use crate::error::Error;
use crate::state::ConnectionState;

/// Why an attempt brought no answer.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    /// No connection: nothing was sent.
    NoConnection(Refusal),
    /// Sent, but unanswered (time-out, connection lost): may have been carried out. Or answered, but too few replicas have it.
    Unanswered {
        detail: String,
        /// When it was handed to the connection.
        sent: Moment,
        /// The answer, where there was one; a failover may undo the call.
        unconfirmed: Option<Value>,
    },
    /// The server answered with an error: not carried out.
    Refused(Refusal),
}

/// The server's refusal.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) reason: Reason,
    pub(crate) detail: String,
}

/// The reason for a refusal, as far as callers have to tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The script is not in the server's cache.
    NoScript,
    /// The server may be able to in a moment: it is loading, busy, out of memory, without its replicas or its primary, full,
    /// or in the middle of a move.
    NotNow,
    /// Another server has the key. A client of a cluster follows; a client of a single server has no other.
    Elsewhere,
    /// The keys are not on one server.
    CrossSlot,
    /// User name or password.
    Authentication,
    /// ACL.
    Permission,
    /// The key holds another type.
    WrongType,
    /// The server is a replica. After a failover the same address may lead to the new primary.
    ReadOnly,
    /// TLS: a certificate does not fit, on either side, or the server does not speak it.
    Tls,
    /// The connection could not be made.
    Unreachable,
    /// Anything else.
    Other,
}

/// The word of a server for an object without a name.
const NAMELESS: [&str; 3] = ["one of the keys", "a key", "channel"];
/// So many of them are shown.
const MOST_NAMES: usize = 6;

impl Refusal {
    /// The server at `address` says that it is a replica.
    pub(super) fn no_master(address: &Address) -> Self {
        Refusal {
            reason: Reason::ReadOnly,
            detail: format!("READONLY {address} is not the master"),
        }
    }

    pub(crate) fn unreachable(detail: impl Into<String>) -> Self {
        Refusal {
            reason: Reason::Unreachable,
            detail: detail.into(),
        }
    }

    /// The same, said by `who`.
    pub(super) fn by(self, who: impl fmt::Display) -> Self {
        Refusal {
            detail: format!("{who}: {}", self.detail),
            ..self
        }
    }

    /// No answer came for so long.
    pub(super) fn silent(limit: Duration) -> Self {
        Self::unreachable(format!("no answer within {limit:?}"))
    }

    /// Reads an error that the server answered with; `None` when it is not the server's.
    pub(crate) fn from_server(error: &RedisError) -> Option<Self> {
        let code = error.code()?;
        Some(Self::from_text(&match error.detail() {
            Some(detail) => format!("{code} {detail}"),
            None => code.to_owned(),
        }))
    }

    /// Reads the server's words, the error's code first.
    pub(crate) fn from_text(text: &str) -> Self {
        let text = said_inside_a_script(text).unwrap_or(text);
        let detail = text.to_owned();
        let reason = match text.split(' ').next().unwrap_or_default() {
            "NOSCRIPT" => Reason::NoScript,
            "LOADING" | "BUSY" | "TRYAGAIN" | "MASTERDOWN" | "CLUSTERDOWN" | "OOM" | "MISCONF"
            | "NOREPLICAS" => Reason::NotNow,
            "NOAUTH" | "WRONGPASS" => Reason::Authentication,
            "NOPERM" => Reason::Permission,
            "MOVED" | "ASK" => Reason::Elsewhere,
            "CROSSSLOT" => Reason::CrossSlot,
            "WRONGTYPE" => Reason::WrongType,
            "READONLY" => Reason::ReadOnly,
            _ if detail.contains("max number of clients") => Reason::NotNow,
            // A slot is on its way to another node, and a key of the script there already, or deleted by the script.
            _ if detail.contains("non local key in a cluster node") => Reason::NotNow,
            // The error for a script's own commands when the ACL forbids them.
            _ if detail.contains("The user executing the script can't") => Reason::Permission,
            // The same since Redis 7.2, and in Valkey.
            _ if detail.starts_with("ERR ACL failure in script") => Reason::Permission,
            _ => Reason::Other,
        };
        Refusal { reason, detail }
    }

    /// The state of a connection that cannot be used for this reason.
    pub(super) fn shown(&self) -> ConnectionState {
        ConnectionState::Disconnected {
            detail: self.detail.clone(),
        }
    }

    /// Whether the server may say otherwise in a moment.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self.reason, Reason::NotNow | Reason::ReadOnly)
    }

    /// Whether a call with one of the keys may be carried out: some of them are at another node of a cluster already.
    pub(crate) fn parts_keys(&self) -> bool {
        self.reason == Reason::NotNow && self.detail.starts_with("TRYAGAIN")
    }

    /// Whether it settles a call; `maybe_done` says that an earlier copy may have been carried out.
    ///
    /// A script reports an error of its object after it has read the record, so the earlier copy
    /// was not carried out. A refusal of the server before that says nothing about the earlier copy.
    pub(crate) fn is_final(&self, maybe_done: bool) -> bool {
        match self.reason {
            _ if self.may_pass() => false,
            Reason::Permission | Reason::Authentication => !maybe_done,
            _ => true,
        }
    }

    /// A server says that a key is out of bounds, or a channel, or a command of a script, and not which: here it is about these.
    pub(crate) fn naming(mut self, names: impl FnOnce() -> Vec<String>) -> Self {
        if self.reason != Reason::Permission {
            return self;
        }
        let names = names();
        if NAMELESS.iter().any(|what| self.detail.contains(what)) && !names.is_empty() {
            let shown = names[..names.len().min(MOST_NAMES)].join(", ");
            let others = match names.len().saturating_sub(MOST_NAMES) {
                0 => String::new(),
                others => format!(", and {others} more"),
            };
            self.detail += &format!(" (one of {shown}{others})");
        } else if self.detail.ends_with("this command or subcommand") {
            self.detail += " (rsem doctor tells which)";
        }
        self
    }

    /// Reads an error of connecting.
    pub(crate) fn at_connect(error: &RedisError) -> Self {
        Self::from_server(error).unwrap_or_else(|| Self::unreachable(error.to_string()))
    }

    /// Returns the error of a call that ends by this refusal, and that nothing has come of.
    ///
    /// `name` is that of the object, or the server's address; the caller has `waited` for so long.
    pub(crate) fn error(&self, name: &str, waited: Duration) -> Error {
        let name = name.to_owned();
        let detail = self.detail.clone();
        match self.reason {
            Reason::WrongType => Error::WrongType {
                key: name.clone(),
                name,
                found: None,
            },
            Reason::Permission => Error::PermissionDenied { name, detail },
            Reason::CrossSlot => Error::InvalidName {
                name,
                reason: "its keys fall into different slots of the cluster; a part of the name in braces, \
                         as in {name}, keeps them together, and for a latch no braces at all",
            },
            Reason::NotNow | Reason::ReadOnly => Error::RefusedForNow { name, detail },
            Reason::Authentication => Error::Authentication { name, detail },
            Reason::Tls => Error::Tls { name, detail },
            Reason::Unreachable => Error::Unavailable {
                name,
                waited,
                detail,
            },
            _ => Error::Server { name, detail },
        }
    }
}

/// The words that a script's command was refused with. Redis 7.0 passes them on; before, they stand behind where in the
/// script that was: `@user_script: 15: -READONLY ..`, and this behind `ERR Error running script (..): ` where the script ended
/// by it.
fn said_inside_a_script(text: &str) -> Option<&str> {
    let place = "@user_script: ";
    let (_line, words) = match text.strip_prefix(place) {
        Some(rest) => rest,
        None => {
            let text = text.strip_prefix("ERR Error running script ")?;
            text.split_once(": ")?.1.split_once(place)?.1
        }
    }
    .split_once(": ")?;
    Some(words.strip_prefix('-').unwrap_or(words))
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Failure::NoConnection(refusal) | Failure::Refused(refusal) => &refusal.detail,
            Failure::Unanswered { detail, .. } => detail,
        })
    }
}

impl Failure {
    pub(crate) fn unanswered(detail: impl Into<String>, sent: Moment) -> Self {
        Failure::Unanswered {
            detail: detail.into(),
            sent,
            unconfirmed: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_apart_by_their_first_word() {
        let reason = |text: &str| Refusal::from_text(text).reason;
        for word in [
            "LOADING",
            "BUSY",
            "TRYAGAIN",
            "MASTERDOWN",
            "CLUSTERDOWN",
            "OOM",
            "MISCONF",
            "NOREPLICAS",
        ] {
            assert_eq!(reason(&format!("{word} for now")), Reason::NotNow, "{word}");
        }
        assert_eq!(reason("READONLY a replica"), Reason::ReadOnly);
        assert_eq!(reason("MOVED 866 127.0.0.1:7001"), Reason::Elsewhere);
        assert_eq!(reason("ASK 866 127.0.0.1:7001"), Reason::Elsewhere);
        assert_eq!(reason("CROSSSLOT Keys in request"), Reason::CrossSlot);
        assert_eq!(reason("ERR max number of clients reached"), Reason::NotNow);
        assert_eq!(
            reason("ERR Script attempted to access a non local key in a cluster node"),
            Reason::NotNow
        );
        assert_eq!(reason("ERR LOADING"), Reason::Other);
    }

    #[test]
    fn what_was_said_inside_a_script_is_read_as_newer_servers_pass_it_on() {
        let place =
            "ERR Error running script (call to f_8d62): @user_script:15: @user_script: 15: ";
        for (words, reason) in [
            ("READONLY You can't write", Reason::ReadOnly),
            ("OOM command not allowed", Reason::NotNow),
            ("WRONGTYPE Operation against a key: x", Reason::WrongType),
        ] {
            let refusal = Refusal::from_text(&format!("{place}-{words}"));
            assert_eq!((refusal.detail.as_str(), refusal.reason), (words, reason));
            let refusal = Refusal::from_text(&format!("@user_script: 129: -{words}"));
            assert_eq!((refusal.detail.as_str(), refusal.reason), (words, reason));
        }
        let forbidden = format!("{place}The user executing the script can't run this command");
        assert_eq!(Refusal::from_text(&forbidden).reason, Reason::Permission);
        let fault =
            "ERR Error running script (call to f_8d62): @user_script:15: user_script:15: a fault";
        assert_eq!(Refusal::from_text(fault).detail, fault);
    }

    #[test]
    fn what_may_pass_is_not_final_and_what_is_forbidden_says_nothing_of_an_earlier_copy() {
        let is_final = |text, maybe_done| Refusal::from_text(text).is_final(maybe_done);
        assert!(!is_final("OOM", false) && !is_final("READONLY", true));
        assert!(is_final("NOPERM", false) && !is_final("NOPERM", true));
        assert!(is_final("WRONGTYPE", true) && is_final("CROSSSLOT", true));
    }
}
