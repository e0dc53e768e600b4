//! Many clients of one caller each share one permit: what a grant costs the server.

use std::time::Duration;

use crate::Result;
use crate::contestant::Contestant::{self, Guards, Ours, Plain};
use crate::figures::numbers::grouped;
use crate::report::{Report, metric};
use crate::stage::Stage;
use crate::watch::{Load, watch};

pub(crate) const NAME: &str = "clients";

const HOLD: Duration = Duration::from_millis(10);
/// Each message wakes all clients of the plain one, so that a grant costs it as many scripts.
const MOST_OF_PLAIN: u64 = 300;

pub(crate) async fn run(stage: &mut Stage, report: &mut Report) -> Result<()> {
    report.begin(NAME, "clients of one caller each, 1 permit held 10 ms");
    for &clients in stage.settings.clients {
        let all = [(Ours, false), (Guards, false), (Plain, false), (Ours, true)];
        for (contestant, busy) in all {
            if contestant == Plain && clients > MOST_OF_PLAIN {
                continue;
            }
            let title = title(contestant, clients, busy);
            let name = format!("bench:{NAME}:{title}");
            stage.set(&name, 1).await?;
            let load = Load {
                contestant,
                name: &name,
                clients,
                hold: Some(HOLD),
                busy,
            };
            let seen = watch(stage, &load).await?;
            let per_grant = |amount: f64| amount / seen.grants.max(1.0);
            let mut numbers = vec![
                (&metric::PAIRS_PER_SECOND, seen.grants / seen.seconds),
                (&metric::SCRIPTS_PER_PAIR, per_grant(seen.scripts)),
                (&metric::SCRIPT_TIME_PER_PAIR, per_grant(seen.script_micros)),
            ];
            // With a pinger, most of these are the pinger's.
            if !busy {
                numbers.extend([
                    (&metric::COMMANDS_PER_PAIR, per_grant(seen.commands)),
                    (&metric::REDIS_PER_PAIR, per_grant(seen.cpu_micros)),
                ]);
            }
            numbers.extend(seen.of_long_scripts());
            report.add(title, numbers);
        }
    }
    report.end();
    Ok(())
}

/// A row's title.
pub(crate) fn title(contestant: Contestant, clients: u64, busy: bool) -> String {
    let server = if busy { ", a busy server" } else { "" };
    format!("{contestant}, {}{server}", grouped(clients as f64))
}
