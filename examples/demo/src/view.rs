//! The user's view: in a terminal a picture that is redrawn in place, elsewhere plain lines.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

pub(crate) const BOLD: &str = "\x1b[1m";
pub(crate) const DIM: &str = "\x1b[2m";
pub(crate) const YELLOW: &str = "\x1b[33m";
pub(crate) const CYAN: &str = "\x1b[36m";
const PLAIN: &str = "\x1b[0m";

const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";
const ERASE_BELOW: &str = "\x1b[J";

/// Between two plain lines about the same thing.
const PLAIN_LINES: Duration = Duration::from_secs(1);
const PICTURES: Duration = Duration::from_millis(50);

pub(crate) fn paint(style: &str, text: &str) -> String {
    format!("{style}{text}{PLAIN}")
}

pub(crate) struct View {
    terminal: bool,
    /// How many lines of the picture stand above the cursor.
    drawn: usize,
    last: Option<Instant>,
}

impl View {
    pub(crate) fn new() -> View {
        let dumb = env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        View {
            terminal: io::stdout().is_terminal() && !dumb,
            drawn: 0,
            last: None,
        }
    }

    /// A line that stays; it takes the place of the picture.
    pub(crate) fn line(&mut self, line: &str) -> io::Result<()> {
        self.clear()?;
        writeln!(io::stdout(), "{line}")
    }

    /// Shows the present state: a picture in a terminal, elsewhere a line now and then.
    pub(crate) fn show(
        &mut self,
        picture: impl FnOnce() -> Vec<String>,
        line: impl FnOnce() -> String,
    ) -> io::Result<()> {
        if self.terminal {
            self.draw(&picture())
        } else if self.is_time(PLAIN_LINES) {
            writeln!(io::stdout(), "{}", line())
        } else {
            Ok(())
        }
    }

    /// Shows progress in a terminal, and nothing elsewhere.
    pub(crate) fn progress(&mut self, line: impl FnOnce() -> String) -> io::Result<()> {
        if self.terminal && self.is_time(PICTURES) {
            self.draw(&[line()])
        } else {
            Ok(())
        }
    }

    /// Takes the picture away.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        if self.drawn == 0 {
            return Ok(());
        }
        let text = format!("{}{ERASE_BELOW}{SHOW_CURSOR}", self.to_top());
        self.drawn = 0;
        put(&text)
    }

    /// In one write, so that no half picture is seen.
    fn draw(&mut self, lines: &[String]) -> io::Result<()> {
        let mut text = format!("{HIDE_CURSOR}{}", self.to_top());
        for line in lines {
            text.push_str(line);
            text.push_str("\x1b[K\n");
        }
        text.push_str(ERASE_BELOW);
        self.drawn = lines.len();
        put(&text)
    }

    fn to_top(&self) -> String {
        match self.drawn {
            0 => String::new(),
            lines => format!("\x1b[{lines}A\r"),
        }
    }

    fn is_time(&mut self, pause: Duration) -> bool {
        let now = Instant::now();
        let due = self.last.is_none_or(|last| now >= last + pause);
        if due {
            self.last = Some(now);
        }
        due
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if self.drawn > 0 {
            let _ = put(SHOW_CURSOR);
        }
    }
}

fn put(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
