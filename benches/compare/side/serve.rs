//! Commands in, answers out: JSON, one object a line.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::crowd::{self, Order};
use super::parked::Parked;
use super::{Semaphore, Side};
use crate::Result;

struct Server<S: Side> {
    /// The clients over which the callers of the `crowd` command are spread. The first client carries out all other commands.
    sides: Vec<S>,
    /// How many grants the callers of the `crowd` command got.
    grants: Arc<AtomicU64>,
    /// Kept, as a service keeps its handles.
    semaphores: Mutex<HashMap<String, S::Semaphore>>,
    parked: Mutex<HashMap<String, Arc<Parked>>>,
}

/// Obeys until standard input ends. Each command has a task of its own.
pub(crate) async fn serve(sides: Vec<impl Side>) -> Result<()> {
    let server = Arc::new(Server {
        sides,
        grants: Arc::default(),
        semaphores: Mutex::default(),
        parked: Mutex::default(),
    });
    let mut commands = lines();
    print(&json!({ "event": "ready" }));
    while let Some(line) = commands.recv().await {
        let command: Value = serde_json::from_str(&line)?;
        let server = Arc::clone(&server);
        tokio::spawn(async move {
            let began = now();
            let mut answer = match server.carry_out(&command).await {
                Ok(value) => json!({ "ok": value }),
                Err(error) => json!({ "error": error.to_string() }),
            };
            answer["id"] = command["id"].clone();
            answer["began"] = json!(began);
            answer["ended"] = json!(now());
            print(&answer);
        });
    }
    // Callers may still be waiting.
    std::process::exit(0);
}

impl<S: Side> Server<S> {
    async fn carry_out(&self, command: &Value) -> Result<Value> {
        let name = command["name"].as_str().unwrap_or_default();
        match command["op"].as_str() {
            Some("acquire") => {
                self.semaphore(name).acquire(permits(command)?).await?;
                Ok(Value::Null)
            }
            Some("release") => {
                self.semaphore(name).release(permits(command)?).await?;
                Ok(Value::Null)
            }
            Some("tryAcquire") => {
                let wait = Duration::from_millis(number(command, "waitMs")?);
                let semaphore = self.semaphore(name);
                let taken = semaphore.try_acquire(permits(command)?, wait).await?;
                Ok(json!(taken))
            }
            Some("crowd") => {
                let order = Order {
                    permits: permits(command)?,
                    time: Duration::from_millis(number(command, "millis")?),
                    hold: Duration::from_micros(command["holdMicros"].as_u64().unwrap_or(0)),
                };
                let _kept = self.semaphore(name);
                // Each caller has a handle of its own: each handle of a lock is an owner.
                let semaphores = (0..number(command, "callers")?).map(|caller| {
                    let side = &self.sides[caller as usize % self.sides.len()];
                    match command["semaphores"].as_u64() {
                        None => side.semaphore(name),
                        Some(count) => side.semaphore(&format!("{name}:{}", caller % count)),
                    }
                });
                let semaphores = semaphores.collect();
                crowd::run(semaphores, order, &self.grants).await
            }
            Some("grants") => Ok(json!(self.grants.load(Ordering::Relaxed))),
            Some("park") => {
                let semaphore = self.semaphore(name);
                let parked = Parked::start(&semaphore, number(command, "callers")?).await;
                self.parked().insert(name.to_owned(), parked);
                Ok(Value::Null)
            }
            Some("parked") => match self.parked().get(name) {
                Some(parked) => parked.result(),
                None => Err(format!("nobody is parked at {name}").into()),
            },
            op => Err(format!("unknown op {op:?}").into()),
        }
    }

    fn semaphore(&self, name: &str) -> S::Semaphore {
        let mut semaphores = self.semaphores.lock().expect("no panic under this lock");
        let semaphore = semaphores.entry(name.to_owned());
        semaphore
            .or_insert_with(|| self.sides[0].semaphore(name))
            .clone()
    }

    fn parked(&self) -> MutexGuard<'_, HashMap<String, Arc<Parked>>> {
        self.parked.lock().expect("no panic under this lock")
    }
}

fn permits(command: &Value) -> Result<u32> {
    Ok(u32::try_from(command["permits"].as_u64().unwrap_or(1))?)
}

fn number(command: &Value, field: &str) -> Result<u64> {
    command[field]
        .as_u64()
        .ok_or_else(|| format!("{field:?} is missing").into())
}

/// Microseconds since 1970.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_micros() as u64)
}

/// The lines of standard input, read by a thread of their own.
fn lines() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(|line| line.ok()) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn print(answer: &Value) {
    // A failed write means that the reader has gone: the end of standard input will follow.
    let _ = writeln!(std::io::stdout().lock(), "{answer}");
}
