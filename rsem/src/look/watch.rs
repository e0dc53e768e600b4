//! `rsem watch`: looks again and again.

use std::io::IsTerminal;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use tokio::time::{MissedTickBehavior, interval};

use super::screen::{Look, Screen};
use super::{Looker, Object};
use crate::connect::Connect;
use crate::exit::{self, Failure};
use crate::say::say;
use crate::signals::Signals;
use crate::span;

/// Watch what stands under the names: in a terminal with curves, otherwise a line for each name and look
///
/// Looks only, as `show` does: it wakes no waiter and changes no turn. Changes that come and go between two looks are not seen.
/// Goes on while Redis is away. In the terminal q ends it.
#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// Names as the services have them (see --prefix)
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,

    /// From one look to the next; 50 ms at the least
    #[arg(short, long, value_name = "TIME", value_parser = span::parse, default_value = "1s")]
    interval: Duration,

    /// End after so many looks
    #[arg(short, long, value_name = "NUMBER")]
    count: Option<u64>,

    /// Print lines in a terminal, too
    #[arg(long)]
    lines: bool,
}

const SHORTEST: Duration = Duration::from_millis(50);

impl Watch {
    pub(crate) async fn carry_out(self, connect: &Connect) -> Result<u8, Failure> {
        let mut signals = Signals::watch()?;
        let looker = Looker::new(connect.client().await?);
        let keys: Vec<String> = self.names.iter().map(|name| connect.mapped(name)).collect();
        let terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
        let mut screen = (terminal && !self.lines).then(|| Screen::open(self.names.clone()));
        let mut ticks = interval(self.interval.max(SHORTEST));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut left = self.count.unwrap_or(u64::MAX);
        let watch = async {
            while left > 0 {
                ticks.tick().await;
                let look = looker.objects(&keys).await.map_err(Failure::from);
                match &mut screen {
                    Some(screen) => screen.show(look)?,
                    None if self.print(look) => {}
                    None => break,
                }
                left -= 1;
            }
            Ok(0)
        };
        let quit = screen_keys(terminal && !self.lines);
        let ended = tokio::select! {
            done = watch => done,
            () = quit => Ok(0),
            signal = signals.ending() => Ok(exit::of_signal(signal)),
        };
        drop(screen);
        ended
    }

    /// Prints a line for each object, or the failure. Returns whether the output is still read.
    fn print(&self, look: Look) -> bool {
        let time = clock();
        match look {
            Ok(objects) => (self.names.iter().zip(objects))
                .all(|(name, object)| say(format_args!("{time} {name} {}", line(&object)))),
            Err(failure) => {
                eprintln!("{time} rsem: {}", failure.reason);
                true
            }
        }
    }
}

/// The words of a line about one object: `kind=lock held=1 listening=2 ttl_ms=29000`.
fn line(object: &Object) -> String {
    let mut words = vec![format!("kind={}", object.kind.name().replace(' ', "-"))];
    words.extend(
        object
            .level()
            .map(|(what, level)| format!("{what}={level}")),
    );
    words.extend(object.listeners.map(|count| format!("listening={count}")));
    words.extend(object.ttl.map(|ttl| format!("ttl_ms={}", ttl.as_millis())));
    words.join(" ")
}

/// Of the day, in UTC.
fn clock() -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let seconds = now.as_secs() % 86_400;
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    format!(
        "{hours:02}:{minutes:02}:{:02}.{:03}Z",
        seconds % 60,
        now.subsec_millis()
    )
}

/// Returns when the user presses a key that ends the screen.
async fn screen_keys(screen: bool) {
    if screen {
        super::screen::quit().await;
    } else {
        std::future::pending().await
    }
}
