//! Permits of the recipes: the callers that believe to hold them, and the state of the server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redisson_semaphore::Lease;
use tokio::time::Instant;

use super::{Host, Judge, Object};

#[derive(Default)]
pub(super) struct Recipes {
    held: BTreeMap<u64, Held>,
    /// Recipes whose permits were taken away, and until when the holders may not know.
    robbed: BTreeMap<usize, Instant>,
    /// When permits with ids end.
    ends: BTreeMap<usize, BTreeMap<String, f64>>,
    /// Permits that guards released before they were lost.
    let_go: BTreeMap<(usize, String), Host>,
    /// The ids that callers have received.
    known: BTreeSet<String>,
    /// Known ids for which a caller has set another end, earlier or later.
    shortened: BTreeSet<String>,
    /// Ids that no caller has received, and since when each has been seen.
    untold: BTreeMap<(usize, String), Instant>,
}

struct Held {
    host: Host,
    recipe: usize,
    id: String,
    term: Term,
    /// It is being released.
    given: bool,
}

/// How long a permit is held.
#[derive(Clone)]
pub enum Term {
    /// By a guard.
    Lease(Lease),
    /// By a caller that has its id, at least until then.
    Until(Option<Instant>),
}

impl Held {
    fn is_lost(&self) -> bool {
        match &self.term {
            Term::Lease(lease) => lease.is_lost(),
            Term::Until(end) => end.is_some_and(|end| end <= Instant::now()),
        }
    }

    fn is_in_hand(&self) -> bool {
        !self.given && !self.is_lost()
    }
}

/// The state of one recipe in the server.
pub struct Standing {
    pub ids: BTreeSet<String>,
    /// How many more permits can be taken now.
    pub free: i64,
    /// For permits with ids: how many permits are free, plus how many ids there are, whether their time is over or not.
    pub sum: Option<i64>,
}

/// A permit without an end counts as lasting this long once it was taken away.
const EVER: Duration = Duration::from_secs(86_400);
const UNDER_WAY: Duration = Duration::from_secs(4);
/// When all clients can send again, they release the permits that no caller has received within this time.
const OWED: Duration = Duration::from_secs(30);

impl Judge {
    /// A caller has got a permit of a recipe. Returns the number of the hold.
    pub fn has_permit(
        &mut self,
        recipe: usize,
        host: Host,
        id: &str,
        term: Term,
        limit: u32,
    ) -> u64 {
        self.granted += 1;
        self.last_number += 1;
        self.something_happens();
        let held = Held {
            host,
            recipe,
            id: id.to_owned(),
            term,
            given: false,
        };
        self.recipes.known.insert(id.to_owned());
        self.recipes.held.insert(self.last_number, held);
        self.count_holders(recipe, limit);
        self.last_number
    }

    fn count_holders(&mut self, recipe: usize, limit: u32) {
        let all = self.recipes.held.values();
        let ours = all.filter(|held| held.recipe == recipe && held.is_in_hand());
        let ours = ours.count();
        if ours > limit as usize && !self.is_permit_robbed(recipe) {
            let detail = format!("{ours} have permits of r{recipe}, of {limit}");
            self.accuse("holders", detail);
        }
    }

    /// A caller does not hold its permit any more.
    pub fn has_no_permit(&mut self, number: u64) {
        if let Some(held) = self.recipes.held.remove(&number) {
            let is_lost = held.is_lost();
            let Held {
                host,
                recipe,
                id,
                term,
                ..
            } = held;
            self.note(format_args!("c{host} lets {id} of r{recipe} go"));
            let by_guard = matches!(term, Term::Lease(_));
            if by_guard && !is_lost && !self.has_ended(host) {
                self.recipes.let_go.insert((recipe, id), host);
            }
        }
    }

    /// Whether the time of a permit is over.
    pub fn is_over(&self, number: u64) -> bool {
        let held = self.recipes.held.get(&number);
        held.is_none_or(Held::is_lost)
    }

    /// A release had no effect: the permit stays until its time is over.
    pub fn stays(&mut self, recipe: usize, id: &str) {
        self.recipes.let_go.remove(&(recipe, id.to_owned()));
    }

    /// A permit is being released.
    pub fn gives_permit(&mut self, number: u64) {
        if let Some(held) = self.recipes.held.get_mut(&number) {
            held.given = true;
        }
    }

    /// The permit lasts until `end` now. As long as the call has no reply, it lasts at least until the earlier of both ends.
    pub fn lasts_until(&mut self, number: u64, end: Option<Instant>, answered: bool) {
        if let Some(held) = self.recipes.held.get_mut(&number)
            && let Term::Until(before) = held.term
        {
            let earlier = match (before, end) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
            held.term = Term::Until(if answered { end } else { earlier });
        }
    }

    /// A caller sets a new end for its permit, which may be an earlier one.
    pub fn may_end_sooner(&mut self, id: &str) {
        self.recipes.shortened.insert(id.to_owned());
    }

    /// A call with the id of a permit that its caller holds reports that it is not held.
    pub fn is_gone(&mut self, number: u64, call: &str) {
        let held = self.recipes.held.get(&number);
        let Some(held) = held.filter(|held| !held.is_lost()) else {
            return;
        };
        let (host, recipe) = (held.host, held.recipe);
        let excused = self.rules.inexact() || self.closing(host);
        if !excused && !self.is_permit_robbed(recipe) {
            let detail = format!("{call} of c{host}: {} of r{recipe} is not held", held.id);
            self.accuse("effects", detail);
        }
    }

    /// Judges when each permit with an id ends; `now` is the server's clock. A permit whose time is over must not last on, and no end may become
    /// earlier. Ids that no caller has received are exempt: their permits may be released and taken at once.
    pub fn ends_are(&mut self, recipe: usize, ends: BTreeMap<String, f64>, now: f64) {
        let before = self.recipes.ends.entry(recipe).or_default();
        let before = std::mem::replace(before, ends);
        let ends = &self.recipes.ends[&recipe];
        let revived = before.iter().find(|(id, end)| {
            let later = ends.get(*id);
            let lasts_on = **end <= now && later.is_some_and(|later| later > *end);
            // A failover may lose the change of an end: then the end before it is back.
            let restored = self.rules.forgetful && self.recipes.shortened.contains(*id);
            lasts_on && self.recipes.known.contains(*id) && !restored
        });
        let revived = revived.map(|(id, _)| id.clone());
        let sooner = before.iter().find(|(id, end)| {
            let known = self.recipes.known.contains(*id) && !self.recipes.shortened.contains(*id);
            known && ends.get(*id).is_some_and(|later| later < *end)
        });
        let sooner = sooner.map(|(id, _)| id.clone());
        let excused = self.rules.forgetful || self.rules.inexact() || self.records_are_robbed();
        if let Some(id) = sooner.filter(|_| !excused) {
            self.accuse("shortened", format!("{id} of r{recipe} ends sooner"));
        }
        if let Some(id) = revived.filter(|_| !self.rules.meddled) {
            let detail = format!("{id} of r{recipe} was over, and lasts on");
            self.accuse("revived", detail);
        }
    }

    /// The holder of a permit learns that it is lost.
    pub fn loses_permit(&mut self, number: u64, lasts: Option<Duration>) {
        let Some(held) = self.recipes.held.get(&number) else {
            return;
        };
        let (host, recipe) = (held.host, held.recipe);
        self.note(format_args!(
            "c{host} is told that it has lost one of r{recipe}"
        ));
        let lasts = lasts.unwrap_or_default();
        let well = self.clients.get(&host).and_then(|client| client.well_since);
        let well = well.is_none_or(|well| well + lasts + Duration::from_secs(1) < Instant::now())
            && self.rules.can_keep(lasts);
        if well && !self.rules.meddled && !self.is_permit_robbed(recipe) && !self.closing(host) {
            self.accuse(
                "kept",
                format!("c{host} has lost one of r{recipe}, and nothing was wrong"),
            );
        }
    }

    /// Permits are taken away. A holder whose lease is not renewed learns of that when its lease ends.
    pub fn robs_permits(&mut self, recipe: usize, lasts: Option<Duration>) {
        let lasts = (lasts.unwrap_or(EVER) * 2).max(self.rules.longest_lease);
        let until = Instant::now() + lasts + UNDER_WAY;
        let robbed = self.recipes.robbed.entry(recipe).or_insert(until);
        *robbed = until.max(*robbed);
    }

    pub(super) fn is_permit_robbed(&self, recipe: usize) -> bool {
        let until = self.recipes.robbed.get(&recipe);
        until.is_some_and(|until| Instant::now() <= *until)
    }

    /// Judges the state of a recipe in the server now.
    pub fn recipe_is(&mut self, recipe: usize, standing: &Standing, limit: u32) {
        let robbed = self.is_permit_robbed(recipe);
        let wrong = standing.sum.filter(|sum| *sum != limit.into());
        if let Some(sum) = wrong.filter(|_| !self.rules.inexact()) {
            let detail = format!("r{recipe} has {sum} permits, free and held, of {limit}");
            self.accuse("balance", detail);
        }
        let of_it = |held: &&Held| held.recipe == recipe && held.is_in_hand();
        let unknown = |held: &&Held| of_it(held) && !standing.ids.contains(&held.id);
        let untold = self.recipes.held.values().find(unknown);
        if let Some(held) = untold.filter(|_| !robbed) {
            let detail = format!(
                "c{} is not told that it has lost {} of r{recipe}",
                held.host, held.id
            );
            self.accuse("told", detail);
        }
        self.recipes
            .let_go
            .retain(|(of, id), _| *of != recipe || standing.ids.contains(id));
        let mut let_go = self.recipes.let_go.iter();
        let left = let_go.find(|((of, _), host)| *of == recipe && self.is_settled(**host));
        let left = left.map(|((_, id), host)| (id.clone(), *host));
        if let Some((id, host)) = left.filter(|_| !robbed && !self.rules.inexact()) {
            let detail = format!("c{host} has been shut down, and {id} of r{recipe} stands");
            self.accuse("balance", detail);
        }
        self.is_free(Object::Recipe(recipe), standing.free > 0);
    }

    /// Whether some permits may be neither free nor held, which is no fault then.
    pub fn may_lack_permits(&self) -> bool {
        self.rules.inexact()
    }

    /// Returns the ids that callers hold.
    pub fn ids_in_hand(&self, recipe: usize) -> BTreeSet<String> {
        let held = self.recipes.held.values();
        held.filter(|held| held.recipe == recipe)
            .map(|held| held.id.clone())
            .collect()
    }

    /// Whether a client has still to release an id without an end or a holder, because its caller never received it. It is a fault if that takes
    /// long.
    pub fn is_owed_back(&mut self, recipe: usize, id: &str) -> bool {
        let hosts: Vec<Host> = self.clients.keys().copied().collect();
        let lost =
            |host: &Host| self.gives_up(*host) || self.has_ended(*host) && !self.is_settled(*host);
        let told = self.recipes.known.contains(id) || id.starts_with("peer");
        if told || self.rules.forgetful || self.rules.inexact() || hosts.iter().any(lost) {
            return false;
        }
        let now = Instant::now();
        let untold = &mut self.recipes.untold;
        let since = untold.entry((recipe, id.to_owned())).or_insert(now);
        if now - *since > OWED {
            let detail = format!("{id} of r{recipe} is held for nobody");
            self.accuse("balance", detail);
        }
        true
    }

    /// A client that is gone holds no permits.
    pub(super) fn forgets_permits(&mut self, host: Host) {
        self.recipes.held.retain(|_, held| held.host != host);
    }

    /// Notes whether waiters find the object free.
    pub(super) fn is_free(&mut self, object: Object, free: bool) {
        if free {
            self.free_since.entry(object).or_insert_with(Instant::now);
        } else {
            self.free_since.remove(&object);
        }
    }
}
