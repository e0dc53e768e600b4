//! The server's own account of who took how many permits: its append-only file.
//!
//! The file holds every change of a counter together with the record of the client that made it, in the order
//! in which they took effect, and everything that any client was ever answered. So it tells exactly how many
//! permits each client has taken and not given back, whatever the clients believe. Changes without a record
//! are those of Redisson; but what is given back for dead clients counts as theirs: it says whose it is. Permits with ids are
//! known one by one, whoever takes them out.

use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::{GROUPS, LEASED, LEASED_LIMIT, Result, WATCHED};

const HELD: &str = "redisson_sc_held:{soak-watched}";
const PERMITS: &str = "{soak-leased}:timeout";

/// A counter and a client's id; no id stands for Redisson.
type Account = (String, Option<String>);

pub(crate) struct Witness {
    file: PathBuf,
    /// How much of the file has been read, to the end of a whole change.
    read: u64,
    counters: HashMap<String, i64>,
    taken: HashMap<Account, i64>,
    /// What stands under each holder of a watched semaphore.
    on_record: HashMap<String, i64>,
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
            on_record: HashMap::new(),
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
        let mut client = words.into_iter().find_map(|word| client_of(word));
        let mut given_back_for = HashMap::<String, i64>::new();
        for command in change {
            match &command.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                ["HSET", HELD, holder, entry] => {
                    let permits = entry.split(' ').next().unwrap_or_default().parse()?;
                    self.on_record.insert((*holder).to_owned(), permits);
                    // A lone call is on record there.
                    let (writer, _) = holder.rsplit_once(':').ok_or("no holder's name")?;
                    client.get_or_insert_with(|| writer.to_owned());
                }
                ["HDEL", HELD, holders @ ..] => {
                    for holder in holders {
                        let permits = self.on_record.remove(*holder).unwrap_or(0);
                        let (client, _) = holder.rsplit_once(':').ok_or("no holder's name")?;
                        *given_back_for.entry(client.to_owned()).or_default() += permits;
                    }
                }
                _ => {}
            }
        }
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
            } else if *counter != before {
                let mut taken = before - *counter;
                if client.is_none() && name == WATCHED {
                    for (client, permits) in &given_back_for {
                        let account = (name.clone(), Some(client.clone()));
                        *self.taken.entry(account).or_default() -= permits;
                        taken += permits;
                    }
                }
                let account = (name.clone(), client.clone());
                *self.taken.entry(account).or_default() += taken;
            }
        }
        Ok(())
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

/// The client that a record is of: the end of its key, behind the semaphore's name in braces, or the beginning, before
/// a number, where it serves several semaphores.
fn client_of(key: &str) -> Option<String> {
    let names = ["redisson_sc_once:", "redisson_sc_leased_once:"];
    let name = names.into_iter().find_map(|kind| key.strip_prefix(kind));
    let (front, end) = name?.rsplit_once(':')?;
    let client = if front.contains('{') { end } else { front };
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
