//! One part of the file: what is taken out of it, and what is left.

use std::time::Duration;

use super::known::Group;
use super::node::{Entry, Node, Value};
use super::text::unresolved;
use super::{Fault, Ignored, fault};

/// In milliseconds; no time here is longer.
const DAY: u32 = 86_400_000;

/// The settings of a section that were not read yet.
pub(super) struct Section {
    /// `singleServerConfig.`; nothing for the whole file.
    prefix: String,
    /// Where it stands.
    line: usize,
    entries: Vec<Entry>,
}

/// A setting as it stands in the file.
pub(super) struct Setting {
    /// With the section's name.
    pub(super) key: String,
    pub(super) line: usize,
    pub(super) node: Node,
}

impl Section {
    pub(super) fn whole(document: Node) -> Result<Self, Fault> {
        Section::of(String::new(), document.line, document)
    }

    fn of(prefix: String, line: usize, node: Node) -> Result<Self, Fault> {
        let Value::Map(entries) = node.value else {
            let what = format!("{prefix}: no settings (name: value)");
            return Err(fault(node.line, what));
        };
        Ok(Section {
            prefix,
            line,
            entries,
        })
    }

    /// The setting called `key`; nothing where it is `null`.
    pub(super) fn take(&mut self, key: &str) -> Option<Setting> {
        let index = self.entries.iter().position(|entry| entry.key == key)?;
        let Entry { key, line, value } = self.entries.remove(index);
        let setting = Setting {
            key: format!("{}{key}", self.prefix),
            line,
            node: value,
        };
        (!matches!(setting.node.value, Value::Null)).then_some(setting)
    }

    /// Of the whole of it.
    pub(super) fn fault(&self, what: String) -> Fault {
        fault(self.line, what)
    }

    pub(super) fn missing(&self, key: &str) -> Fault {
        self.fault(format!("{}{key} is missing", self.prefix))
    }

    /// Where a setting stands.
    pub(super) fn line(&self, key: &str) -> Option<usize> {
        let entry = self.entries.iter().find(|entry| entry.key == key);
        entry.map(|entry| entry.line)
    }

    pub(super) fn text(&mut self, key: &str) -> Result<Option<String>, Fault> {
        self.take(key).map(|setting| setting.text()).transpose()
    }

    pub(super) fn number(&mut self, key: &str) -> Result<Option<u32>, Fault> {
        self.take(key).map(|setting| setting.number()).transpose()
    }

    /// In milliseconds.
    pub(super) fn time(&mut self, key: &str) -> Result<Option<Duration>, Fault> {
        self.take(key).map(|setting| setting.time()).transpose()
    }

    pub(super) fn section(&mut self, key: &str) -> Result<Option<Section>, Fault> {
        let Some(setting) = self.take(key) else {
            return Ok(None);
        };
        let (line, prefix) = (setting.line, format!("{}.", setting.key));
        Section::of(prefix, line, setting.node).map(Some)
    }

    /// The remaining settings must be among those that are `ignored`.
    pub(super) fn finish(self, ignored: &[Group], list: &mut Vec<Ignored>) -> Result<(), Fault> {
        for Entry { key, line, value } in self.entries {
            let group = ignored
                .iter()
                .find(|(_, keys)| keys.split(' ').any(|known| known == key));
            let key = format!("{}{key}", self.prefix);
            let Some((reason, _)) = group else {
                return Err(fault(
                    line,
                    format!("{key}: Redisson has no such setting here"),
                ));
            };
            if !matches!(value.value, Value::Null) {
                list.push(Ignored::new(line, key, *reason));
            }
        }
        Ok(())
    }
}

impl Setting {
    pub(super) fn wrong(&self, what: &str) -> Fault {
        fault(self.line, format!("{}: {what}", self.key))
    }

    pub(super) fn text(&self) -> Result<String, Fault> {
        text_of(&self.node).map_err(|what| self.wrong(&what))
    }

    pub(super) fn number(&self) -> Result<u32, Fault> {
        let digits = self.text()?.replace('_', "");
        if digits.len() > 1 && digits.starts_with('0') {
            return Err(self.wrong("a number that Redisson reads to the base 8"));
        }
        let number = digits.parse();
        number.map_err(|_| self.wrong("no whole number, or below 0"))
    }

    fn time(&self) -> Result<Duration, Fault> {
        match self.number()? {
            0 => Err(self.wrong("no time in milliseconds")),
            millis if millis > DAY => Err(self.wrong("longer than a day")),
            millis => Ok(Duration::from_millis(millis.into())),
        }
    }

    /// One word of these.
    pub(super) fn word<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, Fault> {
        let text = self.text()?;
        let known = words.iter().find(|(word, _)| *word == text);
        known.map(|(_, meaning)| *meaning).ok_or_else(|| {
            let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            self.wrong(&format!("none of {}", words.join(", ")))
        })
    }

    /// A list of texts, or one.
    pub(super) fn list(&self) -> Result<Vec<(usize, String)>, Fault> {
        let item = |node: &Node| match text_of(node) {
            Ok(text) => Ok((node.line, text)),
            Err(what) => Err(fault(node.line, format!("{}: {what}", self.key))),
        };
        match &self.node.value {
            Value::List(nodes) => nodes.iter().map(item).collect(),
            _ => item(&self.node).map(|item| vec![item]),
        }
    }

    /// The Java class that it is an object of.
    pub(super) fn class(&self) -> Option<&str> {
        self.node.class.as_deref()
    }
}

fn text_of(node: &Node) -> Result<String, String> {
    let Value::Text(text) = &node.value else {
        return Err("no single value".to_owned());
    };
    match unresolved(text) {
        Some(variable) => Err(format!(
            "the variable {variable} is not set, and has no default"
        )),
        None => Ok(text.clone()),
    }
}
