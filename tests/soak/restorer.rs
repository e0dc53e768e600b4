//! Puts back what those took along who were killed, as an operator would, and what Redisson has lost.

use std::collections::HashMap;
use std::sync::Arc;

use redisson_semaphore::{Client, RSemaphore};

use crate::books::{Books, Standing};
use crate::witness::Witness;
use crate::{BUSY, COMES_BACK, GROUPS, Result};

pub(crate) struct Restorer {
    witness: Witness,
    books: Arc<Books>,
    semaphores: HashMap<&'static str, RSemaphore>,
    /// How much has been put back for a client; `None` is Redisson.
    restored: HashMap<(&'static str, Option<String>), i64>,
}

impl Restorer {
    pub(crate) fn new(witness: Witness, books: &Arc<Books>, client: &Client) -> Restorer {
        let semaphores = GROUPS.map(|(group, _)| (group[0], client.semaphore(group[0])));
        Restorer {
            witness,
            books: Arc::clone(books),
            semaphores: HashMap::from(semaphores),
            restored: HashMap::new(),
        }
    }

    /// For all processes that were killed, once for each: the dead change nothing any more. Some of what they held
    /// comes back without this.
    pub(crate) async fn restore_killed(&mut self) -> Result<()> {
        let killed: Vec<String> = {
            let entries = self.books.open();
            let killed = entries.processes.iter();
            let killed = killed.filter(|process| process.standing == Standing::Killed);
            killed
                .filter_map(|process| process.client.clone())
                .collect()
        };
        for client in killed {
            let others = GROUPS
                .into_iter()
                .filter(|(group, _)| !COMES_BACK.contains(group));
            for (group, _) in others {
                let account = (group[0], Some(client.clone()));
                if !self.restored.contains_key(&account) {
                    self.restore(group, account.1).await?;
                }
            }
        }
        Ok(())
    }

    /// For Redisson, while none of its threads holds anything; how much it has lost since the last time.
    pub(crate) async fn restore_java(&mut self) -> Result<i64> {
        // What it has given up waiting for may still be on its way to the server, or lie there unread: it has been
        // carried out when the server has looked around twice.
        for _ in 0..2 {
            self.semaphores[BUSY].exists().await?;
        }
        self.restore(&[BUSY], None).await
    }

    async fn restore(
        &mut self,
        group: &'static [&'static str],
        client: Option<String>,
    ) -> Result<i64> {
        self.witness.update()?;
        let taken = self.witness.taken(group, client.as_deref());
        let restored = self.restored.entry((group[0], client)).or_default();
        let missing = taken - *restored;
        if missing != 0 {
            *restored = taken;
            let missing = i32::try_from(missing)?;
            self.semaphores[group[0]].add_permits(missing).await?;
        }
        Ok(missing)
    }

    /// The server's account, up to date.
    pub(crate) fn witness(&mut self) -> Result<&Witness> {
        self.witness.update()?;
        Ok(&self.witness)
    }
}
