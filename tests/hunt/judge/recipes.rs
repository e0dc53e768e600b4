//! Permits of the recipes: who believes to hold them, and what stands in the server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redisson_semaphore::Lease;
use tokio::time::Instant;

use super::{Host, Judge, Object};

#[derive(Default)]
pub(super) struct Recipes {
    held: BTreeMap<u64, Held>,
    /// Those that somebody has meddled with, and until when their holders may not know.
    robbed: BTreeMap<usize, Instant>,
    /// When permits with ids end.
    ends: BTreeMap<usize, BTreeMap<String, f64>>,
    /// What guards have let go before it was lost.
    let_go: BTreeMap<(usize, String), Host>,
    /// The ids that anybody has been told.
    known: BTreeSet<String>,
    /// Those of them of which somebody has asked for another end, earlier or later.
    shortened: BTreeSet<String>,
    /// Since when those have been seen of which nobody has been told.
    untold: BTreeMap<(usize, String), Instant>,
}

struct Held {
    host: Host,
    recipe: usize,
    id: String,
    term: Term,
    /// It is being given back.
    given: bool,
}

/// How long a permit is held.
#[derive(Clone)]
pub enum Term {
    /// By a guard.
    Lease(Lease),
    /// By whoever has its id, at least until then.
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

/// What stands in the server of one.
pub struct Standing {
    pub ids: BTreeSet<String>,
    /// How many more may hold one now.
    pub free: i64,
    /// Of permits with ids: how many are free, and how many ids there are, whether their time is over or not.
    pub sum: Option<i64>,
}

/// What a permit without an end lasts, once somebody has taken it away.
const EVER: Duration = Duration::from_secs(86_400);
const UNDER_WAY: Duration = Duration::from_secs(4);
/// When all can send again, what nobody was told of has been given back after this.
const OWED: Duration = Duration::from_secs(30);

impl Judge {
    /// A permit of a recipe is in hand.
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

    /// It is given back.
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

    /// Whether its time is over.
    pub fn is_over(&self, number: u64) -> bool {
        let held = self.recipes.held.get(&number);
        held.is_none_or(Held::is_lost)
    }

    /// It stays until its time is up.
    pub fn stays(&mut self, recipe: usize, id: &str) {
        self.recipes.let_go.remove(&(recipe, id.to_owned()));
    }

    /// It is being given back.
    pub fn gives_permit(&mut self, number: u64) {
        if let Some(held) = self.recipes.held.get_mut(&number) {
            held.given = true;
        }
    }

    /// It lasts until `end` now; or, as long as that has not been answered, not longer.
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

    /// Somebody asks for an end of its own, which may be an earlier one.
    pub fn may_end_sooner(&mut self, id: &str) {
        self.recipes.shortened.insert(id.to_owned());
    }

    /// Whoever has its id is told that nobody has it.
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

    /// When each permit with an id ends, by the server's clock, which is `now`. One whose time is over is nobody's; what nobody has
    /// been told of may be given back and taken at once.
    pub fn ends_are(&mut self, recipe: usize, ends: BTreeMap<String, f64>, now: f64) {
        let before = self.recipes.ends.entry(recipe).or_default();
        let before = std::mem::replace(before, ends);
        let ends = &self.recipes.ends[&recipe];
        let revived = before.iter().find(|(id, end)| {
            let later = ends.get(*id);
            let lasts_on = **end <= now && later.is_some_and(|later| later > *end);
            // A failover that loses the step that shortened a lease restores the end before it.
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

    /// Its holder is told that it is lost.
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

    /// Somebody takes permits away. The holder of one with a lease of its own, which is not renewed, learns of that at its end.
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

    /// What stands in the server now.
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

    /// Whether some may be neither free nor held: nobody is accused of that.
    pub fn may_lack_permits(&self) -> bool {
        self.rules.inexact()
    }

    /// The ids that somebody has in hand.
    pub fn ids_in_hand(&self, recipe: usize) -> BTreeSet<String> {
        let held = self.recipes.held.values();
        held.filter(|held| held.recipe == recipe)
            .map(|held| held.id.clone())
            .collect()
    }

    /// Whether an id that does not end, and nobody has in hand, is to be given back by a client, as its caller has never been told of it: that
    /// is not to take long.
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

    /// Permits of clients that are gone are nobody's.
    pub(super) fn forgets_permits(&mut self, host: Host) {
        self.recipes.held.retain(|_, held| held.host != host);
    }

    /// Whether there is what those want who wait for it.
    pub(super) fn is_free(&mut self, object: Object, free: bool) {
        if free {
            self.free_since.entry(object).or_insert_with(Instant::now);
        } else {
            self.free_since.remove(&object);
        }
    }
}
