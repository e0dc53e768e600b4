//! A YAML document as a tree that knows its lines.

use std::borrow::Cow;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use super::{Fault, fault};

/// How deep nodes may stand in each other.
const DEEPEST: usize = 32;

/// A value, and where it stands.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) line: usize,
    /// The Java class that its tag names.
    pub(super) class: Option<String>,
    pub(super) value: Value,
}

#[derive(Debug)]
pub(super) enum Value {
    /// Nothing, or `null`.
    Null,
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) line: usize,
    pub(super) value: Node,
}

/// Reads the one document in `text`.
pub(super) fn read(text: &str) -> Result<Node, Fault> {
    let mut reader = Reader {
        parser: Parser::new_from_str(text),
        line: 1,
    };
    let mut document = None;
    loop {
        match reader.next()? {
            Event::DocumentStart(_) if document.is_some() => {
                return Err(fault(reader.line, "there is a second document"));
            }
            Event::DocumentStart(_) => {
                let first = reader.next()?;
                document = Some(reader.node(first, 0)?);
            }
            Event::StreamEnd => break,
            _ => {}
        }
    }
    document.ok_or_else(|| fault(1, "there is nothing in it"))
}

struct Reader<'a> {
    parser: Parser<'a, saphyr_parser::StrInput<'a>>,
    /// Of what has been read last.
    line: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<Event<'a>, Fault> {
        match self.parser.next() {
            Some(Ok((event, span))) => {
                self.line = span.start.line();
                Ok(event)
            }
            Some(Err(error)) => Err(fault(
                error.marker().line(),
                format!("no YAML: {}", error.info()),
            )),
            None => Ok(Event::StreamEnd),
        }
    }

    fn node(&mut self, first: Event<'a>, depth: usize) -> Result<Node, Fault> {
        let line = self.line;
        if depth > DEEPEST {
            return Err(fault(line, "this is too deep"));
        }
        let (tag, value) = match first {
            // It may stand for very much.
            Event::Alias(_) => return Err(fault(line, "aliases of anchors are not read")),
            Event::Scalar(text, style, _, tag) => (tag, scalar(text, style)),
            Event::SequenceStart(_, tag) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        Event::SequenceEnd => break,
                        event => items.push(self.node(event, depth + 1)?),
                    }
                }
                (tag, Value::List(items))
            }
            Event::MappingStart(_, tag) => {
                let mut entries: Vec<Entry> = Vec::new();
                loop {
                    let event = self.next()?;
                    if matches!(event, Event::MappingEnd) {
                        break;
                    }
                    let key = self.node(event, depth + 1)?;
                    let (line, Value::Text(key)) = (key.line, key.value) else {
                        return Err(fault(line, "a key is no text"));
                    };
                    if key == "<<" {
                        return Err(fault(line, "merge keys (<<) are not read"));
                    }
                    if let Some(other) = entries.iter().find(|entry| entry.key == key) {
                        let other = other.line;
                        return Err(fault(
                            line,
                            format!("{key}: it stands in line {other}, too"),
                        ));
                    }
                    let event = self.next()?;
                    let value = self.node(event, depth + 1)?;
                    entries.push(Entry { key, line, value });
                }
                (tag, Value::Map(entries))
            }
            _ => return Err(fault(line, "a value is missing")),
        };
        Ok(Node {
            line,
            class: tag.as_deref().and_then(class),
            value,
        })
    }
}

fn scalar(text: Cow<'_, str>, style: ScalarStyle) -> Value {
    match (style, &*text) {
        (ScalarStyle::Plain, "" | "~" | "null" | "Null" | "NULL") => Value::Null,
        _ => Value::Text(text.into_owned()),
    }
}

/// `!<org.redisson.codec.Kryo5Codec>`, `!!org.redisson.codec.Kryo5Codec`: not YAML's own types.
fn class(tag: &Tag) -> Option<String> {
    let text = format!("{}{}", tag.handle, tag.suffix);
    let name = text.trim_start_matches("tag:yaml.org,2002:");
    let name = name.trim_start_matches('!');
    name.contains('.').then(|| name.to_owned())
}
