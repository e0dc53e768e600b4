//! The server: its requests and replies, its state, and its faults.

use std::time::Duration;

use tokio::time::Instant;

use super::nodes::Node;
use super::recipes::texts;
use super::{EPOCH, Happening, World};
use crate::admin::{LATCH, SEMAPHORE};
use crate::judge::{Granted, Host, Object};
use crate::plan::ServerFault;
use crate::sim::scripts;
use crate::sim::server::{ConnectionId, Reply};
use crate::trace::printed;

impl World {
    pub(super) fn execute(&mut self, number: usize, connection: ConnectionId, words: &[&[u8]]) {
        let host = self.wires[number].host;
        self.judge().hears(host);
        self.look_at_counters(None);
        let node = self.wires[number].node;
        let before = self.locked();
        self.has_written(None, &[]);
        self.nodes.node(node).overheard(&[]);
        let server = &mut self.nodes.node(node).server;
        let reply = server.execute(connection, words);
        self.has_written(Some(host), words);
        self.waits(number);
        let name = words[0].to_ascii_lowercase();
        let after = self.locked();
        for (lock, (before, after)) in before.into_iter().zip(after).enumerate() {
            if before || after {
                self.judge().lock_is_freed(lock, host, !after);
            }
        }
        let subscribes = name.ends_with(b"subscribe");
        self.wires[number].listens |= subscribes;
        if subscribes {
            self.judge().subscribes();
        }
        if name != b"client" {
            let mut judge = self.judge();
            // Clients ask for the slots of the nodes all the time.
            let asks = name == b"cluster" || words.ends_with(&[b"SHARDNUMSUB", b"0"]);
            judge.count_command(name != b"ping" && !asks);
            let said = words[1..].iter().map(|word| match scripts::name_of(word) {
                Some(name) => name.to_owned(),
                None => printed(word),
            });
            let said: Vec<String> = said.collect();
            judge.note(format_args!(
                "c{host}/{number} {} {} -> {}",
                printed(words[0]),
                said.join(" "),
                reply.as_ref().map(shown).unwrap_or_default()
            ));
        }
        self.look_at_counters(Some(host));
        let is_call = name.starts_with(b"eval");
        let script = (is_call.then(|| scripts::name_of(words[1]))).flatten();
        if is_call {
            if script == Some("SEMAPHORE") && words.contains(&&b"announce"[..]) {
                let (node, channel) = (self.nodes.node(node), words[5]);
                let calls = node.overheard(channel);
                if calls > 0 && node.listening(channel) == 0 {
                    self.judge().calls_nobody(host, calls);
                }
            }
            self.look_at_ends();
        }
        let says = |step: &[u8]| words.contains(&step);
        let Node {
            replaced, cut_off, ..
        } = *self.nodes.node(node);
        if is_call && replaced && cut_off {
            self.judge().strays(host);
        }
        if is_call && says(b"down") && says(b"set") {
            self.judge().latch_may_be_open();
        }
        if is_call {
            let numbers = words[3..].iter().filter(|word| word.len() == 16);
            let numbers = numbers.filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok());
            let link = &mut self.hosts[host];
            link.sequence = numbers.fold(link.sequence, u64::max);
        }
        // Renewals do not count: each client renews its leases, whatever else happens.
        let renews = script == Some("RENEW") && !says(b"times") && !says(b"slots");
        let refused: [&[u8]; 3] = [b"NOSCRIPT ", b"MOVED ", b"ASK "];
        let unknown = matches!(&reply, Some(Reply::Error(text))
            if refused.iter().any(|code| text.starts_with(code)));
        if is_call && !renews && !unknown {
            self.judge().script();
        }
        if is_call
            && !unknown
            && let Some(away) = self.hosts[host].lose_answer.take()
        {
            self.judge()
                .note(format_args!("c{host} loses the answer, for {away:?}"));
            self.push();
            self.reset(number, None);
            self.is_away(host, away, Instant::now());
            return;
        }
        if let Some(reply) = reply {
            self.reply(number, &reply);
        }
        self.push();
    }

    /// Delivers the published messages to the listeners.
    pub(super) fn push(&mut self) {
        self.nodes.pass_messages_on();
        let connections: Vec<_> = self
            .by_connection
            .iter()
            .map(|(id, number)| (*id, *number))
            .collect();
        for (connection, number) in connections {
            let node = self.wires[number].node;
            let pushed = self.nodes.node(node).server.pushed(connection);
            if pushed.is_empty() {
                continue;
            }
            let mut bytes = Vec::new();
            for message in &pushed {
                message.encode(&mut bytes);
                if is_told(message) {
                    self.judge().is_told();
                }
            }
            let host = self.wires[number].host;
            self.judge()
                .note(format_args!("c{host}/{number} is sent {}", printed(&bytes)));
            self.answer(number, Some(bytes));
        }
        self.push_to_jvms();
    }

    /// Sets the server's time, and reports its state to the judges. `host` has changed it, or no client has (`None`).
    pub(super) fn look_at_counters(&mut self, host: Option<Host>) {
        let now = self.began.elapsed().as_micros();
        let micros = EPOCH + u64::try_from(now).expect("a short time");
        self.nodes.at(micros.saturating_add_signed(self.stepped));
        for number in 0..self.settings.permits.len() {
            let key = format!("s{number}");
            let value = self.nodes.counter(key.as_bytes()).unwrap_or_default();
            let granted = self.granted(&key);
            self.judge().counter(number, host, value, granted);
        }
        let semaphore = self.nodes.counter(SEMAPHORE.as_bytes()).unwrap_or_default();
        let latch = self.nodes.counter(LATCH.as_bytes());
        self.judge().admin_is(host, semaphore, latch);
    }

    /// Returns how many permits each client has been granted for a time.
    fn granted(&mut self, key: &str) -> Granted {
        let mut granted = Granted::default();
        let now = self.nodes.now();
        let all = texts(self.ask(&["ZRANGE", &grants_of(key), "0", "-1", "WITHSCORES"]));
        for pair in all.chunks_exact(2) {
            let (entry, ends) = (&pair[0], pair[1].parse::<f64>().unwrap_or_default());
            let mut words = entry.splitn(4, ':');
            let (Some(id), Some(ticket), Some(permits)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let (host, permits) = (self.judge().client_called(id), permits.parse::<i64>());
            let (Some(host), Ok(permits)) = (host, permits) else {
                continue;
            };
            *granted.all.entry(host).or_default() += permits;
            if ticket.starts_with('g') {
                *granted.leased.entry(host).or_default() += permits;
                let left = Duration::from_micros((ends as u64).saturating_sub(now));
                granted.ends.push((host, Instant::now() + left, permits));
            }
        }
        granted
    }

    /// Reports the permits on record to the judges.
    pub(super) fn look_at_records(&mut self) {
        self.look_at_counters(None);
        for number in 0..self.settings.permits.len() {
            if self.settings.watched[number] {
                self.judge().look_at_records(number);
            }
        }
    }

    /// A fault that passes begins at a server, or ends.
    pub(super) fn change(&mut self, node: usize, fault: &ServerFault, on: bool) {
        let server = &mut self.nodes.node(node).server;
        server.faults(|faults| match fault {
            ServerFault::ReadOnly(_) => faults.replica = on,
            ServerFault::NoReplicas(_) => faults.too_few_replicas = on,
            _ => {}
        });
    }

    /// A fault happens at a server, or at one of the nodes.
    pub(super) fn server_fault(&mut self, node: usize, fault: ServerFault, now: Instant) {
        if let Some(time) = fault.passes_after() {
            self.change(node, &fault, true);
            self.all_unwell(time);
            self.happens(now + time, Happening::Recovers(node, fault.clone()));
        }
        match fault {
            ServerFault::Restart { down, lost } => self.starts_again(node, lost, down),
            ServerFault::ReadOnly(_) => self.ends_waits(node),
            ServerFault::NoReplicas(_) => {}
            ServerFault::FlushScripts => {
                let Node {
                    server, operator, ..
                } = self.nodes.node(node);
                server.execute(*operator, &[b"SCRIPT", b"FLUSH"]);
            }
            ServerFault::Evict(pattern) => {
                let evicted = self.nodes.node(node).server.evict(pattern.as_bytes());
                self.judge()
                    .note(format_args!("{evicted} keys are evicted"));
                self.locks_are_forgotten();
            }
            ServerFault::Clock(millis) => {
                self.stepped += millis * 1000;
                // A lease lasts as long as the server's clock says.
                self.locks_are_forgotten();
            }
        }
    }

    /// A server restarts, without the last `lost` writes. Connections can be made again `down` later.
    pub(super) fn starts_again(&mut self, node: usize, lost: usize, down: Duration) {
        self.goes_down(node, down);
        self.look_at_counters(None);
        // With a replica, the server itself loses nothing. The replica takes over if anything is lost.
        let replicated = self.settings.replication.is_some();
        let node_loses = if replicated { 0 } else { lost };
        self.nodes.node(node).restart(node_loses);
        match replicated && lost > 0 {
            true => self.loses_the_rest(),
            false => self.has_lost(lost),
        }
        self.rejoins(down);
        self.set_permits();
        let later = down + Duration::from_millis(100);
        for jvm in 0..self.jvms.len() {
            let until = Instant::now() + later;
            self.judge().unwell(crate::jvm::FIRST + jvm, until);
            self.happens(until, Happening::JvmListens(jvm));
        }
        self.look_at_counters(None);
    }

    /// No client reaches the server for this time.
    pub(super) fn goes_down(&mut self, node: usize, down: Duration) {
        let now = Instant::now();
        self.all_unwell(down);
        self.nodes.node(node).is_down(down);
        if !self.nodes.is_cluster() {
            for host in 0..self.hosts.len() {
                self.judge().cuts_off(host, now + down);
            }
        }
        for number in self.open_at(node) {
            self.reset(number, None);
        }
        for jvm in 0..self.jvms.len() {
            if let Some(connection) = self.jvms[jvm].listening.take() {
                self.nodes.disconnect(node, connection);
            }
        }
    }

    pub(super) fn has_lost(&mut self, lost: usize) {
        if lost > 0 {
            self.judge()
                .note(format_args!("the last {lost} writes are lost"));
            self.locks_are_forgotten();
        }
    }

    /// Returns which of the locks are taken.
    fn locked(&mut self) -> Vec<bool> {
        let locks = 0..self.settings.locks;
        let is_there = |number| {
            let key = Object::Lock(number).key();
            self.ask(&["EXISTS", &key]) == Some(Reply::Int(1))
        };
        locks.map(is_there).collect()
    }

    /// Reports the owners of the locks to the judges.
    pub(super) fn look_at_locks(&mut self) {
        self.look_at_counters(None);
        for number in 0..self.settings.locks {
            let key = Object::Lock(number).key();
            let fields = match self.ask(&["HKEYS", &key]) {
                Some(Reply::Array(fields)) => fields,
                _ => Vec::new(),
            };
            let mut judge = self.judge();
            let owner = |field| match field {
                Reply::Bulk(field) if field != b"mode" => {
                    let owner = String::from_utf8_lossy(&field);
                    let owner = owner.strip_suffix(":write").unwrap_or(&owner);
                    Some((owner.to_owned(), judge.client_of(owner)))
                }
                _ => None,
            };
            let owners: Vec<_> = fields.into_iter().filter_map(owner).collect();
            judge.lock_is(number, &owners);
        }
    }

    /// The holders of this object lose it.
    pub(super) fn is_robbed(&self, object: Object) {
        match object {
            Object::Lock(number) => self.judge().robs(number),
            Object::Recipe(number) => {
                let lasts = self.settings.recipes[number].lasts();
                self.judge().robs_permits(number, lasts);
            }
            Object::Semaphore(_) | Object::Latch => {}
        }
    }

    /// Returns the locks and recipes that a command is about.
    pub(super) fn named_in(&self, words: &[&[u8]]) -> Vec<Object> {
        let about = |object: &Object| {
            let key = object.key();
            let mut names = words.iter().map(|word| String::from_utf8_lossy(word));
            names.any(|name| name.contains(&key))
        };
        let locks = (0..self.settings.locks).map(Object::Lock);
        let recipes = (0..self.settings.recipes.len()).map(Object::Recipe);
        locks.chain(recipes).filter(about).collect()
    }

    /// All holders may have lost what they hold. They need not know before their leases end.
    pub(super) fn locks_are_forgotten(&self) {
        self.judge().robs_records();
        for number in 0..self.settings.locks {
            self.judge().robs(number);
        }
        self.permits_are_forgotten();
    }

    /// The same for permits of recipes.
    pub(super) fn permits_are_forgotten(&self) {
        for (number, recipe) in self.settings.recipes.iter().enumerate() {
            self.judge().robs_permits(number, recipe.lasts());
        }
    }

    /// Returns the connections that are open, except those of processes that have stopped for good.
    pub fn connections(&self) -> Vec<String> {
        let open = self.open(None).into_iter();
        let of_somebody = open.map(|number| (self.wires[number].host, number));
        of_somebody
            .filter(|(host, _)| !self.hosts[*host].frozen)
            .map(|(host, number)| format!("c{host}/{number}"))
            .collect()
    }

    /// Returns how many connections were made so far.
    pub fn connections_made(&self) -> usize {
        self.wires.len()
    }

    /// Returns all keys, with their times to live in milliseconds.
    pub fn keys(&mut self) -> Vec<(String, i64)> {
        self.look_at_counters(None);
        let mut all = Vec::new();
        for key in self.nodes.keys("*") {
            let Some(Reply::Int(left)) = self.nodes.ask(&[b"PTTL", &key]) else {
                continue;
            };
            all.push((String::from_utf8_lossy(&key).into_owned(), left));
        }
        all
    }
}

/// Returns the key of a semaphore's grants.
fn grants_of(key: &str) -> String {
    match key.contains('{') {
        true => format!("redisson_sc_grants::{key}"),
        false => format!("redisson_sc_grants:{{{key}}}"),
    }
}

/// Whether this is a message, and not the confirmation of a subscription.
fn is_told(message: &Reply) -> bool {
    let Reply::Array(parts) = message else {
        return false;
    };
    matches!(parts.first(), Some(Reply::Bulk(kind)) if kind.ends_with(b"message"))
}

/// Returns the first whole request, and its length.
pub(super) fn parse(bytes: &[u8]) -> Option<(Vec<&[u8]>, usize)> {
    let line = |from: usize| -> Option<(i64, usize)> {
        let length = bytes[from..].windows(2).position(|pair| pair == b"\r\n")?;
        let text = std::str::from_utf8(&bytes[from + 1..from + length]).expect("a number");
        Some((text.parse().expect("a number"), from + length + 2))
    };
    if bytes.is_empty() {
        return None;
    }
    let (count, mut at) = line(0)?;
    let mut words = Vec::new();
    for _ in 0..count {
        if at >= bytes.len() {
            return None;
        }
        let (length, from) = line(at)?;
        let to = from + usize::try_from(length).expect("a length");
        if bytes.len() < to + 2 {
            return None;
        }
        words.push(&bytes[from..to]);
        at = to + 2;
    }
    Some((words, at))
}

pub(super) fn shown(reply: &Reply) -> String {
    match reply {
        Reply::Status(word) => printed(word),
        Reply::Error(text) => format!("-{}", printed(text)),
        Reply::Int(number) => number.to_string(),
        Reply::Bulk(bytes) => format!("{:?}", printed(bytes)),
        Reply::Nil => "nil".to_owned(),
        Reply::Array(items) => {
            let items: Vec<String> = items.iter().take(12).map(shown).collect();
            format!("[{}]", items.join(" "))
        }
    }
}
