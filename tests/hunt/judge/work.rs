//! How much the server is asked.

use std::time::Duration;

use tokio::time::Instant;

use super::{Host, Judge};

/// Within a second, while nothing else happens; besides what each client renews, and looks after, by itself. While a large request
/// stops the line it asks some 60 times, and three who look after it do some 75 times each, mostly with two scripts.
const MOST_SCRIPTS: u32 = 500;

/// In the server, for each client at each object, when it is quiet; and for each connection there has been, as calls that
/// it has left without an answer have records that are not used again.
const MOST_KEYS: usize = 2;

/// Of each client, when it is quiet; and for each node of a cluster.
const MOST_TASKS: usize = 8;
const MOST_TASKS_FOR_A_NODE: usize = 3;

/// In each client, when it is quiet: so many leases that are over, and records that are not worth a command.
const MOST_HOLDS: u64 = 200;
const MOST_RECORDS: usize = 63;

impl Judge {
    /// A command has been carried out. `calls`: it is none of those that ask whether the server is there.
    pub fn count_command(&mut self, calls: bool) {
        self.commands += 1;
        self.work += u64::from(calls);
    }

    /// A client calls those who wait for permits where nobody listens but those who hear everything.
    pub fn calls_nobody(&mut self, host: Host, calls: usize) {
        let detail = format!("c{host} calls {calls} times where nobody waits");
        self.accuse("messages", detail);
    }

    /// A client has got a message.
    pub fn is_told(&mut self) {
        self.order.messages += 1;
    }

    /// A client has subscribed a channel, or left it.
    pub fn subscribes(&mut self) {
        self.order.subscriptions += 1;
    }

    /// A script has been carried out.
    pub fn script(&mut self) {
        self.order.scripts += 1;
        // Where replicas are waited for, what is owed and what is asked for travel apart.
        let times = 1 + u32::from(self.rules.replicated);
        let most = MOST_SCRIPTS * times + (self.rules.clients as f64 * self.rules.looks) as u32;
        let (since, count) = &mut self.vain;
        if since.is_none_or(|since| since.elapsed() > Duration::from_secs(1)) {
            return self.something_happens();
        }
        *count += 1;
        if *count > most {
            self.accuse(
                "storm",
                format!("{most} scripts within a second, and nothing else"),
            );
        }
    }

    /// What is left in the server when it has been quiet for long.
    pub fn judge_size(&mut self, keys: &[(String, i64)], connections: usize) {
        let (count, clients) = (keys.len(), self.clients.len());
        self.note(format_args!("it is quiet: {count} keys"));
        if count > MOST_KEYS * (clients * self.rules.objects + connections) {
            let detail = format!("{count} keys are left of {clients} clients: {keys:?}");
            self.accuse("size", detail);
        }
    }

    /// What goes on in clients then, all of which are there.
    pub fn judge_tasks(&mut self, tasks: usize) {
        let clients = self.clients.len();
        let most = MOST_TASKS + MOST_TASKS_FOR_A_NODE * self.rules.masters;
        if tasks > most * clients {
            let detail = format!("{tasks} tasks are left of {clients} clients");
            self.accuse("size", detail);
        }
    }

    /// What a client keeps then. `connections`: how many all of them have had.
    pub fn judge_memory(&mut self, host: Host, entries: &[(&str, usize)], connections: usize) {
        self.note(format_args!("c{host} keeps {entries:?}"));
        for (kind, count) in entries {
            let most = match *kind {
                // What has run out is looked for when there is much of it.
                "holds" => MOST_HOLDS as usize,
                "records" => MOST_RECORDS,
                // Those of calls that were left without an answer.
                "uncertain" => self.rules.objects + connections,
                "links" => self.rules.masters.max(1),
                _ => 0,
            };
            if *count > most {
                let detail = format!("c{host} keeps {count} {kind}, with nobody there");
                self.accuse("memory", detail);
            }
        }
    }

    /// Scripts are not in vain.
    pub fn something_happens(&mut self) {
        self.vain = (Some(Instant::now()), 0);
    }
}
