//! How much the records beside the objects take.

use super::{Finding, watched};
use crate::look::{Looker, names};

const ABOUT: &str = "records";
/// So many keys are looked at, at the most, of each master of a cluster: some seconds' work.
const KEYS: u64 = 1_000_000;
/// So many are weighed; the others are taken to weigh as much.
const WEIGHED: usize = 1_000;
/// More than that is worth a look: they vanish by themselves, ten minutes after their last use.
const MANY: usize = 100_000;

pub(super) async fn examine(looker: &Looker) -> Vec<Finding> {
    let (keys, all) = match looker
        .scan(names::ALL_RECORDS, KEYS, names::is_record)
        .await
    {
        Ok(found) => found,
        Err(error) => {
            return vec![Finding::note(
                ABOUT,
                format!("not known: {error}"),
                "run this as a user with +scan, or with --no-scan",
            )];
        }
    };
    let mut findings = vec![of_size(looker, &keys, all).await];
    findings.extend(watched::examine(looker, &keys).await);
    findings
}

async fn of_size(looker: &Looker, keys: &[String], all: bool) -> Finding {
    let count = keys.len();
    let sample = keys.iter().take(WEIGHED).cloned().collect();
    let weighed: Vec<u64> = (looker.sizes(sample).await.into_iter())
        .filter_map(|record| record.bytes)
        .collect();
    let bytes = match weighed.len() as u64 {
        0 => String::new(),
        some => format!(
            ", some {} kB",
            weighed.iter().sum::<u64>() * count as u64 / some / 1_000
        ),
    };
    let among = if all {
        ""
    } else {
        " among the first million keys"
    };
    let found = format!("{count}{bytes}{among}");
    if count > MANY {
        return Finding::note(
            ABOUT,
            found,
            "many clients that live briefly leave one each: let processes keep their client",
        );
    }
    Finding::fine(ABOUT, found)
}
