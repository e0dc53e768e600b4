//! The picture of `rsem watch` in a terminal.

use std::collections::VecDeque;
use std::future::pending;
use std::thread;

use ratatui::DefaultTerminal;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, RenderDirection, Sparkline};
use tokio::sync::oneshot;

use super::{Kind, Object, show};
use crate::exit::{self, Failure};
use crate::span;

/// More than any terminal is wide.
const REMEMBERED: usize = 1_000;
/// Of one object: frame, a line of words, two curves.
const HEIGHT: u16 = 7;

/// Has the terminal; gives it back when dropped.
pub(crate) struct Screen {
    terminal: DefaultTerminal,
    shown: Vec<Shown>,
    trouble: Option<String>,
}

/// An object and what it has been.
struct Shown {
    name: String,
    object: Option<Object>,
    levels: VecDeque<u64>,
    listeners: VecDeque<u64>,
}

/// The result of one look, or why there is none.
pub(super) type Look = Result<Vec<Object>, Failure>;

impl Screen {
    pub(crate) fn open(names: Vec<String>) -> Screen {
        let shown = |name| Shown {
            name,
            object: None,
            levels: VecDeque::new(),
            listeners: VecDeque::new(),
        };
        Screen {
            terminal: ratatui::init(),
            shown: names.into_iter().map(shown).collect(),
            trouble: None,
        }
    }

    pub(crate) fn show(&mut self, look: Look) -> Result<(), Failure> {
        match look {
            Ok(objects) => {
                self.trouble = None;
                for (shown, object) in self.shown.iter_mut().zip(objects) {
                    shown.take(object);
                }
            }
            Err(failure) => self.trouble = Some(failure.reason),
        }
        let (shown, trouble) = (&self.shown, self.trouble.as_deref());
        self.terminal
            .draw(|frame| draw(frame, shown, trouble))
            .map_err(|error| Failure::new(exit::FAILED, format!("the terminal: {error}")))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

impl Shown {
    fn take(&mut self, object: Object) {
        let level = object.level().map_or(0, |(_, level)| level);
        remember(&mut self.levels, u64::try_from(level).unwrap_or(0));
        remember(&mut self.listeners, object.listeners.unwrap_or(0));
        self.object = Some(object);
    }
}

/// The latest comes first.
fn remember(past: &mut VecDeque<u64>, now: u64) {
    past.push_front(now);
    past.truncate(REMEMBERED);
}

fn draw(frame: &mut Frame<'_>, shown: &[Shown], trouble: Option<&str>) {
    let room = Layout::vertical([Constraint::Min(0), Constraint::Length(1)]);
    let [all, foot] = room.areas(frame.area());
    let fit = usize::from(all.height / HEIGHT).max(1);
    let rows = Layout::vertical(vec![Constraint::Length(HEIGHT); fit.min(shown.len())]).split(all);
    for (one, area) in shown.iter().zip(rows.iter()) {
        draw_one(frame, one, *area);
    }
    let hidden = shown.len().saturating_sub(fit);
    let words = match trouble {
        Some(trouble) => Line::from(show::plain(trouble)).red().bold(),
        None if hidden > 0 => Line::from(format!("q ends it; {hidden} more below")).dim(),
        None => Line::from("q ends it").dim(),
    };
    frame.render_widget(words, foot);
}

fn draw_one(frame: &mut Frame<'_>, one: &Shown, area: Rect) {
    let kind = one
        .object
        .as_ref()
        .map_or("...", |object| object.kind.name());
    let block = Block::bordered().title(format!(" {}: {kind} ", show::plain(&one.name)));
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let [words, levels, listeners] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(2),
        Constraint::Length(2),
    ])
    .areas(inside);
    frame.render_widget(
        Paragraph::new(one.object.as_ref().map_or_else(String::new, in_words)),
        words,
    );
    curve(frame, levels, &one.levels, Color::Green);
    curve(frame, listeners, &one.listeners, Color::Yellow);
}

fn in_words(object: &Object) -> String {
    let mut words: Vec<String> = Vec::new();
    words.extend(
        object
            .level()
            .map(|(what, level)| format!("{what} {level}")),
    );
    words.extend(object.listeners.map(|count| format!("listening {count}")));
    words.extend(
        object
            .ttl
            .map(|ttl| format!("time to live {}", span::show(ttl))),
    );
    if let Kind::Lock { holders, .. } = &object.kind {
        words.extend(
            holders
                .iter()
                .map(|(owner, count)| show::held(owner, count)),
        );
    }
    words.join("   ")
}

/// The latest is at the right.
fn curve(frame: &mut Frame<'_>, area: Rect, past: &VecDeque<u64>, color: Color) {
    let curve = Sparkline::default()
        .data(past.iter().copied())
        .direction(RenderDirection::RightToLeft)
        .style(Style::new().fg(color));
    frame.render_widget(curve, area);
}

/// Ends when a key is pressed that ends it. A thread waits for keys: it ends with the process.
pub(crate) async fn quit() {
    let (pressed, told) = oneshot::channel();
    thread::spawn(move || {
        while let Ok(event) = event::read() {
            if let Event::Key(key) = event
                && ends(key)
            {
                let _ = pressed.send(());
                return;
            }
        }
    });
    if told.await.is_err() {
        // There is no keyboard: a signal still ends it.
        pending().await
    }
}

fn ends(key: KeyEvent) -> bool {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
        || (control && key.code == KeyCode::Char('c'))
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    #[test]
    fn what_is_seen_is_drawn_and_what_has_no_room_is_counted() {
        let mut shown: Vec<Shown> = ["seats", "second", "third"]
            .map(|name| Shown {
                name: name.to_owned(),
                object: None,
                levels: VecDeque::new(),
                listeners: VecDeque::new(),
            })
            .into();
        for available in [-1, 2, 8] {
            shown[0].take(Object {
                key: "seats".to_owned(),
                kind: Kind::Semaphore {
                    available,
                    leases: None,
                    held: Vec::new(),
                    queued: 0,
                },
                ttl: None,
                listeners: Some(4),
            });
        }
        let backend = TestBackend::new(40, 2 * HEIGHT + 1);
        let mut terminal = Terminal::new(backend).unwrap();
        terminal.draw(|frame| draw(frame, &shown, None)).unwrap();
        let drawn = terminal.backend().to_string();
        let lines: Vec<&str> = drawn.lines().map(|line| line.trim_matches('"')).collect();
        assert!(lines[0].contains(" seats: semaphore "), "{drawn}");
        assert!(lines[1].contains("available 8   listening 4"), "{drawn}");
        // The latest is at the right, and the highest.
        assert!(lines[2].ends_with("  █│"), "{drawn}");
        assert!(lines[3].ends_with("  ▄█│"), "{drawn}");
        assert!(lines[5].ends_with(" ███│"), "{drawn}");
        assert!(lines[HEIGHT as usize].contains(" second: ... "), "{drawn}");
        assert!(lines[14].contains("q ends it; 1 more below"), "{drawn}");
        let trouble = Some("Redis is\x1b away");
        terminal.draw(|frame| draw(frame, &shown, trouble)).unwrap();
        assert!(
            terminal
                .backend()
                .to_string()
                .contains("Redis is\\u{1b} away")
        );
    }
}
