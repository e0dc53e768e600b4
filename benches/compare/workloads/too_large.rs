//! Requests for more permits than there are, each given up after a while and made again: what is left for small ones?

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::Result;
use crate::contestant::Contestant::Ours;
use crate::report::{Report, metric};
use crate::sample::{Crowd, measure};
use crate::stage::Stage;

pub(crate) const NAME: &str = "too-large";

const PERMITS: u64 = 8;
const REQUESTS: u32 = 10;
const WAIT: Duration = Duration::from_secs(3);
const CROWD: Crowd = Crowd {
    callers: 64,
    permits: 1,
    hold: Duration::from_millis(5),
    semaphores: None,
};

pub(crate) async fn run(stage: &mut Stage, report: &mut Report) -> Result<()> {
    report.begin(
        NAME,
        "ten acquire(9) of 8, waits of 3 s again and again, beside 64 callers of one each, held 5 ms",
    );
    let mut undisturbed = None;
    // The time between the starts of two requests.
    let disturbances = [
        ("without", None),
        ("all at once", Some(Duration::ZERO)),
        ("one after the other", Some(WAIT / REQUESTS)),
    ];
    for (title, apart) in disturbances {
        let name = format!("bench:{NAME}:{title}");
        stage.set(&name, PERMITS).await?;
        let small = stage.programs(Ours.make(), 1).await?.remove(0);
        let large = stage.start(Ours.make()).await?;
        let mut requests = Vec::new();
        for number in 0..apart.map_or(0, |_| REQUESTS) {
            let large = large.clone();
            let begin = apart.unwrap_or_default() * number;
            let millis = WAIT.as_millis() as u64;
            let fields = json!({ "name": name, "permits": PERMITS + 1, "waitMs": millis });
            requests.push(tokio::spawn(async move {
                sleep(begin).await;
                while large.call("tryAcquire", fields.clone()).await.is_ok() {}
            }));
        }
        let entrants = [(Ours, small)];
        measure(stage, &entrants, &name, &CROWD, stage.settings.warm_up).await?;
        // In whole waits.
        let waits = stage.settings.measure_shared.as_secs_f64() / WAIT.as_secs_f64();
        let time = WAIT * waits.ceil() as u32;
        let sample = measure(stage, &entrants, &name, &CROWD, time).await?;
        large.signal("KILL")?;
        futures::future::try_join_all(requests).await?;
        let pairs = sample.pairs_per_second();
        let part = pairs / *undisturbed.get_or_insert(pairs);
        let mut numbers = metric::of_sample(&sample);
        numbers.push((&metric::PERMIT_USE, sample.use_of(PERMITS)));
        numbers.push((&metric::PART_OF_UNDISTURBED, part));
        report.add(title.to_owned(), numbers);
    }
    report.end();
    Ok(())
}
