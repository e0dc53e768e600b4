//! Locks, and the callers that believe to hold them.

use redisson_semaphore::Lease;
use std::time::Duration;
use tokio::time::Instant;

use super::waiting::Waiting;
use super::{Host, Judge, Object};

/// An owner that has a lock.
#[derive(Debug, Clone)]
pub struct Holder {
    pub object: usize,
    pub host: Host,
    pub owner: String,
    /// Other readers may hold the lock at the same time.
    pub reads: bool,
}

pub(super) struct HeldLock {
    pub(super) holder: Holder,
    pub(super) lease: Lease,
    /// Set if the lock was taken away: until then its holder need not know.
    pub(super) robbed: Option<Instant>,
}

/// How long it takes until a lock that was taken away is gone, and all requests under way have arrived.
const ROBBING: Duration = Duration::from_secs(4);

impl Judge {
    /// A caller has got a lock. Returns the number of the hold.
    pub fn locks(&mut self, holder: Holder, lease: Lease, token: Option<u64>) -> u64 {
        let Holder {
            object,
            host,
            ref owner,
            reads,
        } = holder;
        self.granted += 1;
        self.last_number += 1;
        let now = Instant::now();
        let believes = |held: &&HeldLock| {
            held.holder.object == object
                && held.holder.owner != *owner
                && !(reads && held.holder.reads)
                && !held.lease.is_lost()
                && held.robbed.is_none_or(|until| now > until)
        };
        let other = self.locks.values().find(believes);
        let other = other.map(|held| held.holder.host);
        // A caller that was not polled for longer than its lease learns of the loss together with the hold.
        if let Some(other) = other.filter(|_| !lease.is_lost()) {
            self.accuse("owner", format!("c{host} holds l{object} beside c{other}"));
        }
        if let Some(token) = token {
            let (highest, last) = self.tokens.get(&object).cloned().unwrap_or_default();
            // Callers of one owner that are served together continue in any order.
            let fresh = last != *owner
                && !lease.is_lost()
                && !self.rules.inexact()
                && !self.is_robbed(object);
            if token <= highest && fresh {
                self.accuse(
                    "tokens",
                    format!("c{host} holds l{object} with {token}, after {highest}"),
                );
            }
            let latest = if token > highest {
                (token, owner.clone())
            } else {
                (highest, last)
            };
            self.tokens.insert(object, latest);
        }
        let held = HeldLock {
            holder,
            lease,
            // A grant that was on its way to its holder is taken away, too.
            robbed: self
                .robbed
                .get(&object)
                .copied()
                .filter(|until| now <= *until),
        };
        self.locks.insert(self.last_number, held);
        self.last_number
    }

    /// A lock is taken away from its holder, at once or within seconds.
    pub fn robs(&mut self, object: usize) {
        let now = Instant::now();
        let until = now + self.rules.longest_lease + ROBBING;
        self.robbed.insert(object, until);
        let of_object = |held: &&mut HeldLock| held.holder.object == object;
        for held in self.locks.values_mut().filter(of_object) {
            // The lease may be renewed once more.
            let left = held.lease.remaining().unwrap_or(self.rules.longest_lease);
            let until = now + left.max(self.rules.watchdog) + ROBBING;
            held.robbed = held.robbed.max(Some(until));
        }
    }

    /// Judges the owners that have the lock in the server now. Each is given with its client.
    pub fn lock_is(&mut self, object: usize, owners: &[(String, Option<Host>)]) {
        let now = Instant::now();
        let believes = |held: &&HeldLock| {
            held.holder.object == object
                && owners.iter().all(|(owner, _)| *owner != held.holder.owner)
                && held.robbed.is_none_or(|until| now > until)
                && !held.lease.is_lost()
        };
        if let Some(held) = self.locks.values().find(believes) {
            let detail = format!(
                "c{} is not told that it has lost l{object}, which {owners:?} hold",
                held.holder.host
            );
            self.accuse("told", detail);
        }
        for (owner, host) in owners {
            if self.given_back.contains(&(object, owner.clone())) {
                let detail =
                    format!("{owner} has l{object}, and has been told that it has given it back");
                self.accuse("effects", detail);
            }
            if let Some(host) = host
                && self.is_settled(*host)
                && !self.may_stand(object, owner)
            {
                let detail = format!("c{host} has been shut down, and {owner} has l{object}");
                self.accuse("balance", detail);
            }
        }
        let mut all = owners.iter();
        let stuck = all.find(|(_, host)| host.is_some_and(|host| self.has_left(object, host)));
        let since = match (stuck, self.stuck.remove(&object)) {
            (None, _) => return,
            (Some((owner, _)), Some((former, since))) if former == *owner => since,
            _ => now,
        };
        let (owner, _) = stuck.expect("just seen");
        if now > since + self.rules.patience {
            self.accuse(
                "stuck",
                format!(
                    "{owner} has had l{object} for {:?}, for nobody",
                    now - since
                ),
            );
        }
        self.stuck.insert(object, (owner.clone(), since));
    }

    /// Whether an owner may have the lock in the server although its client has been shut down.
    fn may_stand(&self, object: usize, owner: &str) -> bool {
        let of_owner = |held: &HeldLock| held.holder.object == object && held.holder.owner == owner;
        let client = self
            .client_of(owner)
            .and_then(|host| self.clients.get(&host));
        let in_doubt = client.and_then(|client| client.locks_in_doubt.get(&object));
        self.rules.inexact()
            || self.is_robbed(object)
            || in_doubt.is_some_and(|until| Instant::now() <= *until)
            || self.outlasting.contains(&(object, owner.to_owned()))
            || self.locks.values().any(of_owner)
    }

    /// A guard is gone, and could not release the lock: nothing was done, or its client had been shut down.
    pub fn outlasts(&mut self, object: usize, owner: &str) {
        self.outlasting.insert((object, owner.to_owned()));
    }

    /// Whether the client is well, and none of its callers has or wants the lock.
    fn has_left(&self, object: usize, host: Host) -> bool {
        let client = self.clients.get(&host);
        let well = client.and_then(|client| client.well_since);
        let in_doubt = client.and_then(|client| client.locks_in_doubt.get(&object));
        let now = Instant::now();
        let of_host = |held: &HeldLock| held.holder.object == object && held.holder.host == host;
        let wants = |waiting: &Waiting| waiting.is_of(Object::Lock(object), host);
        // The server may have forgotten an unlock.
        !self.rules.meddled
            && !self.is_robbed(object)
            && !self.closing(host)
            && well.is_some_and(|well| now > well)
            && in_doubt.is_none_or(|until| now > *until)
            && !self.locks.values().any(of_host)
            && !self.waiting.values().any(wants)
    }

    /// The outcome of a call is unknown: the lock may be held until a lease ends.
    pub(super) fn doubts_lock(&mut self, object: usize, host: Host) {
        let client = self.clients.entry(host).or_default();
        let from = Instant::now().max(client.well_since.unwrap_or_else(Instant::now));
        let until = from + self.rules.longest_lease + ROBBING;
        client.locks_in_doubt.insert(object, until);
    }

    /// An owner asks for the lock.
    pub fn asks_for_lock(&mut self, object: usize, owner: &str) {
        self.given_back.remove(&(object, owner.to_owned()));
    }

    /// An unlock of this owner has succeeded.
    pub fn has_unlocked(&mut self, object: usize, host: Host, owner: &str) {
        self.outlasting.remove(&(object, owner.to_owned()));
        // Another hold of the owner may be lost, and stay in the server until its lease ends.
        let of_owner = |held: &HeldLock| held.holder.object == object && held.holder.owner == owner;
        let client = self.clients.get(&host);
        let in_doubt = client.and_then(|client| client.locks_in_doubt.get(&object));
        let in_doubt = in_doubt.is_some_and(|until| Instant::now() <= *until);
        // A waiter of the same owner may have the lock already.
        let wants = |waiting: &Waiting| waiting.is_of(Object::Lock(object), host);
        let others = self.locks.values().any(of_owner) || self.waiting.values().any(wants);
        let others = others || self.releasing.contains(&(object, owner.to_owned()));
        if !self.rules.inexact() && !in_doubt && !others {
            self.given_back.insert((object, owner.to_owned()));
        }
    }

    /// An owner learns that it has lost a lock that is renewed.
    pub fn loses_lock(&mut self, number: u64) {
        let Some(HeldLock { holder, .. }) = self.locks.get(&number) else {
            return;
        };
        let (host, object) = (holder.host, holder.object);
        let lasts = self.rules.watchdog;
        let well = self.clients.get(&host).and_then(|client| client.well_since);
        let well = well.is_some_and(|well| well + lasts + Duration::from_secs(1) < Instant::now());
        let excused = self.rules.inexact() || self.rules.stops || self.closing(host);
        if well && !excused && self.rules.can_keep(lasts) && !self.is_robbed(object) {
            let detail = format!("c{host} has lost l{object}, and nothing was wrong");
            self.accuse("kept", detail);
        }
    }

    /// A script of this client has freed the lock, so that the client notifies a waiter; or the lock is taken.
    pub fn lock_is_freed(&mut self, object: usize, host: Host, free: bool) {
        if free && !self.free_since.contains_key(&Object::Lock(object)) {
            self.freed_by.insert(object, host);
        }
        self.is_free(Object::Lock(object), free);
    }

    /// An owner releases a hold, and does not wait for the reply.
    pub fn lets_lock_go(&mut self, object: usize, owner: &str) {
        let count = self.let_go.entry((object, owner.to_owned())).or_default();
        *count += 1;
    }

    /// How many holds the owner has released so. An unlock that began before says nothing about them.
    pub fn has_let_lock_go(&self, object: usize, owner: &str) -> u32 {
        let count = self.let_go.get(&(object, owner.to_owned()));
        count.copied().unwrap_or_default()
    }

    /// An owner begins, or ends, to release a hold in a call that waits for the reply.
    pub fn releases(&mut self, object: usize, owner: &str, begins: bool) {
        let hold = (object, owner.to_owned());
        let found = self.releasing.iter().position(|other| *other == hold);
        match found {
            Some(place) if !begins => drop(self.releasing.swap_remove(place)),
            _ if begins => self.releasing.push(hold),
            _ => {}
        }
    }

    /// A hold is released. Returns whether the lock was taken away before.
    pub fn unlocks(&mut self, number: u64) -> bool {
        let Some(held) = self.locks.remove(&number) else {
            return false;
        };
        let Holder { host, object, .. } = held.holder;
        self.note(format_args!("c{host} lets l{object} go"));
        if self.has_ended(host) {
            self.outlasts(object, &held.holder.owner);
        }
        held.robbed.is_some()
    }

    /// Whether the lock was taken away lately.
    pub fn is_robbed(&self, object: usize) -> bool {
        let until = self.robbed.get(&object);
        until.is_some_and(|until| Instant::now() <= *until)
    }
}
