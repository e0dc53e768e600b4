//! The server's own account of who took how many permits: its append-only file.
//!
//! The file holds every change of a counter together with the record of the client that made it, in the order
//! in which they took effect, and everything that any client was ever answered. So it tells exactly how many
//! permits each client has taken and not given back, whatever the clients believe. Changes without a record
//! are those of Redisson. A script may move permits to other clients: their entries in the grants say whose they are. Permits with ids
//! are known one by one, whichever script takes them out.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::{GROUPS, LEASED, LEASED_LIMIT, Result};

const PERMITS: &str = "{soak-leased}:timeout";

/// A counter and a client's id; no id stands for Redisson.
type Account = (String, Option<String>);

pub(crate) struct Witness {
    file: PathBuf,
    /// How much of the file has been read, to the end of a whole change.
    read: u64,
    counters: HashMap<String, i64>,
    taken: HashMap<Account, i64>,
    /// The grants of each semaphore.
    granted: HashSet<(String, String)>,
    /// Who has taken each permit that has an id.
    by_id: HashMap<String, Option<String>>,
}

impl Witness {
    /// Of the server that keeps its files in `directory`.
    pub(crate) fn of(directory: &Path) -> Witness {
        let names = GROUPS.iter().flat_map(|(names, _)| *names);
        Witness {
            file: directory.join("appendonlydir/appendonly.aof.1.incr.aof"),
            read: 0,
            counters: names.map(|name| ((*name).to_owned(), 0)).collect(),
            taken: HashMap::new(),
            granted: HashSet::new(),
            by_id: HashMap::new(),
        }
    }

    /// Reads what has been added to the file.
    pub(crate) fn update(&mut self) -> Result<()> {
        let mut bytes = Vec::new();
        let mut file = std::fs::File::open(&self.file)?;
        file.seek(SeekFrom::Start(self.read))?;
        file.read_to_end(&mut bytes)?;
        let mut rest = bytes.as_slice();
        while let Some((change, behind)) = change(rest) {
            self.enter(&change)?;
            rest = behind;
        }
        self.read += (bytes.len() - rest.len()) as u64;
        Ok(())
    }

    /// How many permits of a group a client has taken and not given back.
    pub(crate) fn taken(&self, group: &[&str], client: Option<&str>) -> i64 {
        let account = |name: &&str| ((*name).to_owned(), client.map(str::to_owned));
        let taken = group
            .iter()
            .filter_map(|name| self.taken.get(&account(name)));
        taken.sum()
    }

    /// What the counters of a group hold together.
    pub(crate) fn counters(&self, group: &[&str]) -> i64 {
        group.iter().map(|name| self.counters[*name]).sum()
    }

    fn enter(&mut self, change: &[Vec<String>]) -> Result<()> {
        let words = change.iter().flatten();
        let client = words.into_iter().find_map(|word| client_of(word));
        let moved = self.enter_grants(change, client.as_ref());
        self.enter_ids(change, client.as_ref());
        for (name, counter) in &mut self.counters {
            let before = *counter;
            for command in change {
                apply(command, name, counter)?;
            }
            if name == LEASED {
                let all = *counter + i64::try_from(self.by_id.len())?;
                let set = before != 0 || !self.by_id.is_empty() || *counter != 0;
                if set && all != i64::from(LEASED_LIMIT) {
                    let free = *counter;
                    return Err(format!("{free} free and {all} in all behind {change:?}").into());
                }
            } else {
                let others = moved.get(name).copied().unwrap_or_default();
                let account = (name.clone(), client.clone());
                *self.taken.entry(account).or_default() += before - *counter - others;
            }
        }
        Ok(())
    }

    /// A script of one client grants to others, and takes back what they did not confirm or renew. How many permits of each semaphore the
    /// others have got by this.
    fn enter_grants(
        &mut self,
        change: &[Vec<String>],
        client: Option<&String>,
    ) -> HashMap<String, i64> {
        let mut moved = HashMap::<String, i64>::new();
        for command in change {
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            let (verb, key, rest) = match &words[..] {
                [verb, key, rest @ ..] => (verb.to_ascii_uppercase(), *key, rest),
                _ => continue,
            };
            let name = key.strip_prefix("redisson_sc_grants:{");
            let Some(name) = name.and_then(|name| name.strip_suffix('}')) else {
                continue;
            };
            let flags = rest.iter().take_while(|word| FLAGS.contains(word)).count();
            let (added, entries): (bool, Vec<&str>) = match &*verb {
                "ZADD" => (
                    true,
                    rest[flags..].chunks_exact(2).map(|pair| pair[1]).collect(),
                ),
                "ZREM" => (false, rest.to_vec()),
                _ => continue,
            };
            for entry in entries {
                let known = (name.to_owned(), entry.to_owned());
                let is_new = match added {
                    true => !rest.contains(&"XX") && self.granted.insert(known),
                    false => self.granted.remove(&known),
                };
                let mut parts = entry.split(':');
                let (holder, ticket, permits) = (parts.next(), parts.next(), parts.next());
                let permits = permits.and_then(|permits| permits.parse::<i64>().ok());
                let (Some(holder), Some(ticket), Some(permits), true) =
                    (holder, ticket, permits, is_new)
                else {
                    continue;
                };
                let own = client.is_some_and(|client| client == holder);
                let mut account = |permits: i64| {
                    let account = (name.to_owned(), Some(holder.to_owned()));
                    *self.taken.entry(account).or_default() += permits;
                };
                let signed = if added { permits } else { -permits };
                if !own {
                    *moved.entry(name.to_owned()).or_default() += signed;
                }
                match (ticket.starts_with('g'), own) {
                    (true, false) => account(signed),
                    // Without a guard nobody has it before it is confirmed.
                    (false, true) => account(-signed),
                    _ => {}
                }
            }
        }
        moved
    }
}

/// Flags of `ZADD`.
const FLAGS: [&str; 5] = ["NX", "XX", "GT", "LT", "CH"];

impl Witness {
    fn enter_ids(&mut self, change: &[Vec<String>], client: Option<&String>) {
        let mut account = |client: Option<String>, permits: i64| {
            let account = (LEASED.to_owned(), client);
            *self.taken.entry(account).or_default() += permits;
        };
        for command in change {
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            match &words[..] {
                [verb, PERMITS, rest @ ..] if verb.eq_ignore_ascii_case("ZADD") => {
                    let flags = rest.iter().take_while(|word| FLAGS.contains(word)).count();
                    for entry in rest[flags..].chunks_exact(2) {
                        // Who is there already is prolonged.
                        self.by_id.entry(entry[1].to_owned()).or_insert_with(|| {
                            account(client.cloned(), 1);
                            client.cloned()
                        });
                    }
                }
                [verb, PERMITS, ids @ ..] if verb.eq_ignore_ascii_case("ZREM") => {
                    for id in ids {
                        if let Some(holder) = self.by_id.remove(*id) {
                            account(holder, -1);
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

/// The client that a record is of: the end of its key, behind the semaphore's name in braces.
fn client_of(key: &str) -> Option<String> {
    let names = ["redisson_sc_once:", "redisson_sc_leased_once:"];
    let name = names.into_iter().find_map(|kind| key.strip_prefix(kind));
    let (_, client) = name?.rsplit_once(':')?;
    Some(client.to_owned())
}

fn apply(command: &[String], name: &str, counter: &mut i64) -> Result<()> {
    let (Some(verb), Some(key)) = (command.first(), command.get(1)) else {
        return Ok(());
    };
    if key != name {
        return Ok(());
    }
    let number = || -> Result<i64> {
        let text = command.get(2).ok_or("a number is missing")?;
        Ok(text.parse()?)
    };
    match verb.to_ascii_lowercase().as_str() {
        "set" => *counter = number()?,
        "incrby" => *counter += number()?,
        "decrby" => *counter -= number()?,
        "incr" => *counter += 1,
        "decr" => *counter -= 1,
        "del" | "unlink" => *counter = 0,
        other => return Err(format!("{other} on {name} is not expected").into()),
    }
    Ok(())
}

/// The commands that took effect together, and what comes behind them.
fn change(bytes: &[u8]) -> Option<(Vec<Vec<String>>, &[u8])> {
    let (first, mut rest) = command(bytes)?;
    if first[0] != "MULTI" {
        return Some((vec![first], rest));
    }
    let mut change = Vec::new();
    loop {
        let (next, behind) = command(rest)?;
        rest = behind;
        if next[0] == "EXEC" {
            return Some((change, rest));
        }
        change.push(next);
    }
}

/// One command: `*n`, then `$length` and the text of each word.
fn command(bytes: &[u8]) -> Option<(Vec<String>, &[u8])> {
    let (count, mut rest) = number(bytes, b'*')?;
    let mut words = Vec::new();
    for _ in 0..count {
        let (length, behind) = number(rest, b'$')?;
        let word = behind.get(..length)?;
        words.push(text_of(word));
        rest = behind.get(length + 2..)?;
    }
    Some((words, rest))
}

/// A character for each byte of what is no text, as an id is.
fn text_of(word: &[u8]) -> String {
    match std::str::from_utf8(word) {
        Ok(text) => text.to_owned(),
        Err(_) => word.iter().map(|byte| char::from(*byte)).collect(),
    }
}

fn number(bytes: &[u8], mark: u8) -> Option<(usize, &[u8])> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let text = std::str::from_utf8(bytes[..end].strip_prefix(&[mark])?).ok()?;
    Some((text.parse().ok()?, &bytes[end + 2..]))
}
