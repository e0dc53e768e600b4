//! The Rust processes: how they are started, read, killed and stopped.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::books::{Books, Line};
use crate::{KILLED, Result, worker};

/// A process that has not ended after this time hangs.
const PATIENCE: Duration = Duration::from_secs(40);

pub(crate) struct Crew {
    books: Arc<Books>,
    urls: Vec<String>,
    /// The processes, in the order of their places.
    members: Vec<Member>,
}

struct Member {
    number: usize,
    child: Child,
    input: ChildStdin,
    reading: JoinHandle<()>,
}

impl Crew {
    /// Starts one process for each URL.
    pub(crate) fn start(books: &Arc<Books>, urls: Vec<String>) -> Result<Crew> {
        let mut crew = Crew {
            books: Arc::clone(books),
            urls,
            members: Vec::new(),
        };
        for place in 0..crew.urls.len() {
            let member = crew.begin(place)?;
            crew.members.push(member);
        }
        Ok(crew)
    }

    fn begin(&self, place: usize) -> Result<Member> {
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
        Ok(Member {
            number,
            child,
            input,
            reading,
        })
    }

    /// Kills a process by `kill -9` and puts another one in its place.
    pub(crate) async fn kill_one(&mut self) -> Result<()> {
        let successor = self.begin(KILLED)?;
        let mut member = std::mem::replace(&mut self.members[KILLED], successor);
        member.child.kill().await?;
        // The last reports of the process are still in the pipe.
        member.reading.await?;
        self.books.ended(member.number, true);
        Ok(())
    }

    /// Lets all processes finish. Returns how many did not.
    pub(crate) async fn stop(mut self) -> Result<usize> {
        for member in &mut self.members {
            // A process that has died has no input; the books know it.
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
