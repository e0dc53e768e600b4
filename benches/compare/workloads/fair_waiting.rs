//! Many clients wait for one fair semaphore, and no permit is released: what their checks cost the server.

use crate::Result;
use crate::contestant::Contestant::Fair;
use crate::figures::numbers::grouped;
use crate::report::{Report, metric};
use crate::stage::Stage;
use crate::watch::{Load, watch};

pub(crate) const NAME: &str = "fair-waiting";

pub(crate) async fn run(stage: &mut Stage, report: &mut Report) -> Result<()> {
    let clients = stage.settings.waiting_clients;
    report.begin(
        NAME,
        "many clients wait for one fair semaphore, and nobody releases",
    );
    for busy in [false, true] {
        // The name says that there are eight permits.
        let name = format!("bench:{NAME}:{busy}:scarce");
        let load = Load {
            contestant: Fair,
            name: &name,
            clients,
            hold: None,
            busy,
        };
        let seen = watch(stage, &load).await?;
        let mut numbers = vec![
            (&metric::SCRIPTS_PER_SECOND, seen.scripts / seen.seconds),
            (
                &metric::REDIS_PER_SCRIPT,
                seen.script_micros / seen.scripts.max(1.0),
            ),
        ];
        numbers.extend(seen.of_long_scripts());
        let server = if busy { ", a busy server" } else { "" };
        report.add(
            format!("{} clients{server}", grouped(clients as f64)),
            numbers,
        );
    }
    report.end();
    Ok(())
}
