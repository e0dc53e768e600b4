//! The Rust processes: started, read, killed, stopped.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::books::Books;
use crate::journal::Line;
use crate::support::server::RedisServer;
use crate::{Result, worker};

/// Who has not ended by then hangs.
const PATIENCE: Duration = Duration::from_secs(40);
const PAUSE: Duration = Duration::from_millis(5);

pub(crate) struct Crew {
    books: Arc<Books>,
    urls: Vec<String>,
    members: Vec<Member>,
}

struct Member {
    number: usize,
    place: usize,
    child: Child,
    input: ChildStdin,
    reading: JoinHandle<()>,
}

impl Crew {
    /// One process for each URL.
    pub(crate) fn start(books: &Arc<Books>, urls: Vec<String>) -> Result<Crew> {
        let mut crew = Crew {
            books: Arc::clone(books),
            urls,
            members: Vec::new(),
        };
        for place in 0..crew.urls.len() {
            crew.add(place)?;
        }
        Ok(crew)
    }

    fn add(&mut self, place: usize) -> Result<()> {
        let mut child = Command::new(std::env::current_exe()?)
            .args([worker::ARGUMENT, &self.urls[place], &place.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let input = child.stdin.take().expect("piped");
        let output = child.stdout.take().expect("piped");
        let number = self.books.begin(place);
        let books = Arc::clone(&self.books);
        let reading = tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some(line) = Line::parse(&line) {
                    books.enter(number, line);
                }
            }
        });
        self.members.push(Member {
            number,
            place,
            child,
            input,
            reading,
        });
        Ok(())
    }

    /// Kills a process by `kill -9` and puts another one in its place.
    pub(crate) async fn kill_one(&mut self, server: &RedisServer) -> Result<()> {
        let chosen = fastrand::usize(..self.members.len());
        let mut member = self.members.swap_remove(chosen);
        let name = member.child.id().map(worker::client_name);
        member.child.kill().await?;
        // What it has told before that is in the pipe.
        member.reading.await?;
        // What it has sent before that is still carried out.
        let name = format!(" name={} ", name.ok_or("the process had ended")?);
        let mut connection = server.connection().await;
        loop {
            let list: String = redis::cmd("CLIENT")
                .arg("LIST")
                .query_async(&mut connection)
                .await?;
            if !list.contains(&name) {
                break;
            }
            sleep(PAUSE).await;
        }
        self.books.ended(member.number, true);
        self.add(member.place)
    }

    /// Lets all of them finish; how many did not.
    pub(crate) async fn stop(mut self) -> Result<usize> {
        for member in &mut self.members {
            // One that has died has no input; the books know it.
            let _ = member.input.write_all(b"stop\n").await;
        }
        let mut hung = 0;
        for mut member in self.members {
            let ended = timeout(PATIENCE, &mut member.reading).await;
            if ended.is_err() {
                hung += 1;
                member.child.kill().await?;
                member.reading.await?;
            }
            self.books.ended(member.number, false);
        }
        Ok(hung)
    }
}
