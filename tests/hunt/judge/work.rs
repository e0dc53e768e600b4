//! How many commands the server gets, and how much is left when it is quiet.

use std::time::Duration;

use tokio::time::Instant;

use super::{Host, Judge};

/// How many scripts run within a second while nothing else happens, apart from each client's renewals and checks by itself. A large request that
/// blocks the queue checks some 60 times. Three clients that check on it do so some 75 times each, mostly with two scripts.
const MOST_SCRIPTS: u32 = 500;

/// Keys in the server when it is quiet, for each client at each object. Each connection that was ever made allows as many more: calls that it left
/// without a reply have records that are not used again.
const MOST_KEYS: usize = 2;

/// Tasks of each client when it is quiet, and further ones for each node of a cluster.
const MOST_TASKS: usize = 8;
const MOST_TASKS_FOR_A_NODE: usize = 3;

/// Entries of each client when it is quiet: leases that are over, and records that are not worth a command.
const MOST_HOLDS: u64 = 200;
const MOST_RECORDS: usize = 63;

impl Judge {
    /// A command has been carried out. `calls`: it is more than a PING or a question about the cluster.
    pub fn count_command(&mut self, calls: bool) {
        self.commands += 1;
        self.work += u64::from(calls);
    }

    /// A client has notified waiters on a channel where only a listener to all channels listens.
    pub fn calls_nobody(&mut self, host: Host, calls: usize) {
        let detail = format!("c{host} calls {calls} times where nobody waits");
        self.accuse("messages", detail);
    }

    /// A client has got a message.
    pub fn is_told(&mut self) {
        self.order.messages += 1;
    }

    /// A client has subscribed to a channel, or left it.
    pub fn subscribes(&mut self) {
        self.order.subscriptions += 1;
    }

    /// A script has been carried out. Judges whether there are too many.
    pub fn script(&mut self) {
        self.order.scripts += 1;
        // With replicas, releases and requests travel in separate batches.
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

    /// Judges how many keys are left in the server after it has been quiet for long.
    pub fn judge_size(&mut self, keys: &[(String, i64)], connections: usize) {
        let (count, clients) = (keys.len(), self.clients.len());
        self.note(format_args!("it is quiet: {count} keys"));
        if count > MOST_KEYS * (clients * self.rules.objects + connections) {
            let detail = format!("{count} keys are left of {clients} clients: {keys:?}");
            self.accuse("size", detail);
        }
    }

    /// Judges how many tasks are left in the clients then. No client has died.
    pub fn judge_tasks(&mut self, tasks: usize) {
        let clients = self.clients.len();
        let most = MOST_TASKS + MOST_TASKS_FOR_A_NODE * self.rules.masters;
        if tasks > most * clients {
            let detail = format!("{tasks} tasks are left of {clients} clients");
            self.accuse("size", detail);
        }
    }

    /// Judges how many entries a client keeps then. `connections`: how many all clients have made.
    pub fn judge_memory(&mut self, host: Host, entries: &[(&str, usize)], connections: usize) {
        self.note(format_args!("c{host} keeps {entries:?}"));
        for (kind, count) in entries {
            let most = match *kind {
                // Leases that are over are removed only once there are many.
                "holds" => MOST_HOLDS as usize,
                "records" => MOST_RECORDS,
                // Calls that were left without a reply.
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

    /// Something other than a script happens.
    pub fn something_happens(&mut self) {
        self.vain = (Some(Instant::now()), 0);
    }
}
