//! `rsem set`, `add`, `drain`, `release`, `reclaim` and `unlock`: changes, and the questions before changes that affect other holders.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use clap::{Args, Subcommand};
use redisson_semaphore::{Client, Error, RPermitExpirableSemaphore, RSemaphore};

use crate::connect::Connect;
use crate::exit::{self, Failure};
use crate::look::{Kind, Looker, names, show};
use crate::say::say;
use crate::span;

#[derive(Debug, Subcommand)]
pub(crate) enum Change {
    /// Set how many permits of a semaphore are available; creates it
    ///
    /// Asks before it changes an existing semaphore. It applies the difference, so that permits that come and go meanwhile count.
    ///
    /// Where permits are held by ids (RPermitExpirableSemaphore) it is how many there are, those that are held among them. A
    /// count-down latch looks as a semaphore does: this changes one, too.
    Set {
        name: String,
        /// Those that are held come on top when they are given back, but for those with ids
        permits: u32,
        /// It vanishes after this time. Without it, it stays; also if it had a time to live before
        #[arg(long, value_name = "TIME", value_parser = span::parse)]
        ttl: Option<Duration>,
        /// Leave an existing semaphore as it is: the status is 1 then
        #[arg(long)]
        if_missing: bool,
        #[command(flatten)]
        consent: Consent,
    },
    /// Add permits to a semaphore, or take some away (-3); creates it
    ///
    /// A time to live stays. Asks before it takes some away: the counter may become negative. A count-down latch looks as a
    /// semaphore does: this changes one, too.
    Add {
        name: String,
        #[arg(allow_negative_numbers = true)]
        permits: i32,
        #[command(flatten)]
        consent: Consent,
    },
    /// Take all permits of a semaphore that are available
    ///
    /// A time to live stays. Refused where permits are held by ids: nobody would have the ids of these. A count-down latch looks
    /// as a semaphore does: this changes one, too.
    Drain {
        name: String,
        #[command(flatten)]
        consent: Consent,
    },
    /// Give permits back that somebody else has taken and can't give back any more
    ///
    /// Refused where permits are held by ids: they come back by these, or when their leases end. A count-down latch looks as a
    /// semaphore does: this changes one, too.
    Release {
        name: String,
        #[arg(default_value_t = 1)]
        permits: u32,
        #[command(flatten)]
        consent: Consent,
    },
    /// Give the permits back that the guards of dead clients held
    ///
    /// The next call that waits, or that is a guard's, does so by itself: this is for when only JVMs are left. Permits come back whose lease has
    /// ended. The status is 1 if there were none.
    Reclaim { name: String },
    /// Take a lock away from its holder
    Unlock {
        name: String,
        /// Its holder learns of it up to a third of the lock's time-out later, and may go on until then
        #[arg(long, required = true)]
        force: bool,
        #[command(flatten)]
        consent: Consent,
    },
}

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Consent {
    /// Don't ask
    #[arg(short, long)]
    yes: bool,
}

impl Change {
    pub(crate) async fn carry_out(self, connect: &Connect) -> Result<u8, Failure> {
        let client = connect.client().await?;
        let target = Target {
            looker: Looker::new(client.clone()),
            key: connect.mapped(self.name()),
            semaphore: client.semaphore(self.name()),
            client: &client,
        };
        let done = match self {
            Change::Set {
                permits,
                ttl,
                if_missing,
                consent,
                ..
            } => set(&target, permits, ttl, (!if_missing).then_some(consent)).await,
            Change::Add {
                permits, consent, ..
            } => add(&target, permits, consent).await,
            Change::Drain { consent, .. } => drain(&target, consent).await,
            Change::Release {
                permits, consent, ..
            } => release(&target, permits, consent).await,
            Change::Reclaim { .. } => reclaim(&target.semaphore).await,
            Change::Unlock { name, consent, .. } => {
                let found = target.looker.lock(&target.key).await?;
                if !matches!(found.kind, Kind::Lock { .. } | Kind::Missing) {
                    let is_none = format!("{name:?} is no lock: {}", show::in_words(&found));
                    return Err(Failure::new(exit::DATA, is_none));
                }
                let asked = format!(
                    "{name} {}. Take it away from its holder?",
                    show::in_words(&found)
                );
                if consent.given(&asked)? {
                    // Checked now: a caller may have come while the question was asked.
                    let held = match target.looker.is_fair(&target.key).await? {
                        true => client.fair_lock(&name).force_unlock().await?,
                        false => client.lock(&name).force_unlock().await?,
                    };
                    say(format_args!(
                        "{name}: {}",
                        if held { "unlocked" } else { "nobody held it" }
                    ));
                    Ok(held)
                } else {
                    Ok(false)
                }
            }
        };
        client.shutdown().await?;
        done.map(|done| if done { 0 } else { exit::NO })
    }

    fn name(&self) -> &str {
        match self {
            Change::Set { name, .. }
            | Change::Add { name, .. }
            | Change::Drain { name, .. }
            | Change::Release { name, .. }
            | Change::Reclaim { name }
            | Change::Unlock { name, .. } => name,
        }
    }
}

/// The object to be changed.
struct Target<'a> {
    client: &'a Client,
    looker: Looker,
    /// As it stands in Redis.
    key: String,
    semaphore: RSemaphore,
}

impl Target<'_> {
    /// The object's state, for the question.
    async fn state(&self) -> Result<String, Failure> {
        let name = self.semaphore.name();
        match self.looker.object(&self.key).await {
            Ok(found) => Ok(format!("{name} {}", show::in_words(&found))),
            // A user that may change it need not be allowed to look.
            Err(Error::PermissionDenied { .. }) => {
                Ok(format!("{name} can't be looked at by this user"))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The same semaphore as one with ids, if any of its permits is held by an id. Otherwise Redis shows no difference.
    async fn with_ids(&self) -> Result<Option<RPermitExpirableSemaphore>, Failure> {
        let leases = names::permit_leases(&self.key);
        let held = match self.looker.ask::<u64>(["ZCARD", &leases]).await {
            Ok(held) => held,
            // A user that may not use ids has a semaphore without.
            Err(Error::PermissionDenied { .. }) => 0,
            Err(error) => return Err(error.into()),
        };
        let name = self.semaphore.name();
        Ok((held > 0).then(|| self.client.permit_expirable_semaphore(name)))
    }

    /// Refuses a change that would count a permit twice on a semaphore with ids.
    async fn without_ids(&self, advice: &str) -> Result<(), Failure> {
        match self.with_ids().await? {
            None => Ok(()),
            Some(found) => Err(Failure::new(
                exit::DATA,
                format!("permits of {:?} are held by ids: {advice}", found.name()),
            )),
        }
    }
}

/// Sets the semaphore, an existing one only with the consent. Returns whether it was set.
async fn set(
    target: &Target<'_>,
    permits: u32,
    ttl: Option<Duration>,
    consent: Option<Consent>,
) -> Result<bool, Failure> {
    if let Some(semaphore) = target.with_ids().await? {
        return set_with_ids(target, &semaphore, permits, ttl, consent).await;
    }
    let semaphore = &target.semaphore;
    let name = semaphore.name();
    let created = match ttl {
        Some(ttl) => semaphore.try_set_permits_for(permits, ttl).await?,
        None => semaphore.try_set_permits(permits).await?,
    };
    if created {
        say(format_args!("{name}: {permits} available, created"));
        return Ok(true);
    }
    let Some(consent) = consent else {
        eprintln!("rsem: {name:?} exists");
        return Ok(false);
    };
    let asked = format!("{}. Set it to {permits}?", target.state().await?);
    if !consent.given(&asked)? {
        return Ok(false);
    }
    let before = semaphore.available_permits().await?;
    let delta = i32::try_from(i64::from(permits) - before).map_err(|_| {
        Failure::new(
            exit::DATA,
            format!("{name:?} has {before}: too far from {permits}"),
        )
    })?;
    semaphore.add_permits(delta).await?;
    match ttl {
        Some(ttl) => semaphore.expire(ttl).await?,
        None => semaphore.clear_expire().await?,
    };
    say(format_args!(
        "{name}: {before} available before, {permits} now"
    ));
    Ok(true)
}

/// The same for a semaphore with ids: sets the total, as held permits come back by themselves.
async fn set_with_ids(
    target: &Target<'_>,
    semaphore: &RPermitExpirableSemaphore,
    permits: u32,
    ttl: Option<Duration>,
    consent: Option<Consent>,
) -> Result<bool, Failure> {
    if semaphore.try_set_permits(permits).await? {
        if let Some(ttl) = ttl {
            semaphore.expire(ttl).await?;
        }
        return tell_with_ids(semaphore).await;
    }
    let Some(consent) = consent else {
        eprintln!("rsem: {:?} exists", semaphore.name());
        return Ok(false);
    };
    let asked = format!("{}. Set it to {permits} in all?", target.state().await?);
    if !consent.given(&asked)? {
        return Ok(false);
    }
    semaphore.set_permits(permits).await?;
    match ttl {
        Some(ttl) => semaphore.expire(ttl).await?,
        None => semaphore.clear_expire().await?,
    };
    tell_with_ids(semaphore).await
}

async fn add(target: &Target<'_>, permits: i32, consent: Consent) -> Result<bool, Failure> {
    if permits < 0 {
        let asked = format!(
            "{}. Take {} away?",
            target.state().await?,
            permits.unsigned_abs()
        );
        if !consent.given(&asked)? {
            return Ok(false);
        }
    }
    // Each kind has its own queue of callers to notify.
    if let Some(semaphore) = target.with_ids().await? {
        semaphore.add_permits(permits).await?;
        return tell_with_ids(&semaphore).await;
    }
    target.semaphore.add_permits(permits).await?;
    tell(&target.semaphore).await
}

async fn drain(target: &Target<'_>, consent: Consent) -> Result<bool, Failure> {
    let advice = "nobody could give back what is taken without one; `rsem set` and `rsem add` change how many there are";
    target.without_ids(advice).await?;
    let asked = format!("{}. Take all that are available?", target.state().await?);
    if !consent.given(&asked)? {
        return Ok(false);
    }
    let semaphore = &target.semaphore;
    say(format_args!(
        "{}: {} taken",
        semaphore.name(),
        semaphore.drain_permits().await?
    ));
    Ok(true)
}

async fn release(target: &Target<'_>, permits: u32, consent: Consent) -> Result<bool, Failure> {
    let advice = "they come back by these, or when their leases end; `rsem set` and `rsem add` change how many there are";
    target.without_ids(advice).await?;
    let asked = format!(
        "{}. Give {permits} back? If they are still held, there will be too many.",
        target.state().await?
    );
    if !consent.given(&asked)? {
        return Ok(false);
    }
    let semaphore = &target.semaphore;
    // A misspelled name would create a semaphore.
    if !semaphore.release_if_exists(permits).await? {
        eprintln!("rsem: {:?} does not exist", semaphore.name());
        return Ok(false);
    }
    tell(semaphore).await
}

async fn reclaim(semaphore: &RSemaphore) -> Result<bool, Failure> {
    let dead = semaphore.reclaim().await?;
    if dead.is_empty() {
        eprintln!(
            "rsem: no dead client holds permits of {:?}",
            semaphore.name()
        );
        return Ok(false);
    }
    for holder in dead {
        say(format_args!(
            "{}: {} of client {} {}",
            semaphore.name(),
            holder.permits(),
            show::plain(holder.client_id()),
            show::plain(holder.client_name()),
        ));
    }
    tell(semaphore).await
}

async fn tell(semaphore: &RSemaphore) -> Result<bool, Failure> {
    let available = semaphore.available_permits().await?;
    say(format_args!("{}: {available} available", semaphore.name()));
    Ok(true)
}

async fn tell_with_ids(semaphore: &RPermitExpirableSemaphore) -> Result<bool, Failure> {
    let (available, permits) =
        tokio::try_join!(semaphore.available_permits(), semaphore.total_permits())?;
    say(format_args!(
        "{}: {available} available of {permits}",
        semaphore.name()
    ));
    Ok(true)
}

impl Consent {
    /// A user that can't be asked has to say so beforehand.
    fn given(self, question: &str) -> Result<bool, Failure> {
        if self.yes {
            return Ok(true);
        }
        if !std::io::stdin().is_terminal() {
            return Err(Failure::usage(format!(
                "{question} There is no terminal to ask: --yes does it"
            )));
        }
        eprint!("{question} [y/N] ");
        let _ = std::io::stderr().flush();
        let mut answer = String::new();
        let read = std::io::stdin().read_line(&mut answer);
        Ok(read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }
}
