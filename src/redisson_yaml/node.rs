//! A YAML document as a tree that knows its lines.

use std::borrow::Cow;
use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use super::{Fault, fault};

/// How deep nodes may stand in each other.
const DEEPEST: usize = 32;
/// So many nodes a document may have, with those that aliases repeat; a long text counts as several.
const MOST_NODES: usize = 10_000;
const LONG: usize = 1000;

/// A value, and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) line: usize,
    /// The Java class that its tag names.
    pub(super) class: Option<String>,
    pub(super) value: Value,
}

#[derive(Debug, Clone)]
pub(super) enum Value {
    /// Nothing, or `null`.
    Null,
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) line: usize,
    pub(super) value: Node,
}

/// Reads the one document in `text`.
pub(super) fn read(text: &str) -> Result<Node, Fault> {
    let mut reader = Reader {
        parser: Parser::new_from_str(text),
        anchors: HashMap::new(),
        nodes: 0,
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
    anchors: HashMap<usize, Node>,
    nodes: usize,
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

    /// So many nodes more, so deep.
    fn has_more(&mut self, nodes: usize, depth: usize) -> Result<(), Fault> {
        self.nodes += nodes;
        if depth > DEEPEST || self.nodes > MOST_NODES {
            return Err(fault(self.line, "this is too much"));
        }
        Ok(())
    }

    fn node(&mut self, first: Event<'a>, depth: usize) -> Result<Node, Fault> {
        let line = self.line;
        self.has_more(1, depth)?;
        let (anchor, tag, value) = match first {
            Event::Alias(anchor) => {
                let known = self.anchors.get(&anchor);
                let known = known.ok_or_else(|| fault(line, "this anchor is not known"))?;
                let count = known.count();
                self.has_more(count, depth)?;
                let known = self.anchors[&anchor].clone();
                return Ok(Node { line, ..known });
            }
            Event::Scalar(text, style, anchor, tag) => (anchor, tag, scalar(text, style)),
            Event::SequenceStart(anchor, tag) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        Event::SequenceEnd => break,
                        event => items.push(self.node(event, depth + 1)?),
                    }
                }
                (anchor, tag, Value::List(items))
            }
            Event::MappingStart(anchor, tag) => {
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
                (anchor, tag, Value::Map(entries))
            }
            _ => return Err(fault(line, "a value is missing")),
        };
        let node = Node {
            line,
            class: tag.as_deref().and_then(class),
            value,
        };
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }
}

impl Node {
    fn count(&self) -> usize {
        1 + match &self.value {
            Value::Null => 0,
            Value::Text(text) => text.len() / LONG,
            Value::List(items) => items.iter().map(Node::count).sum(),
            Value::Map(entries) => entries.iter().map(|entry| entry.value.count()).sum(),
        }
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
