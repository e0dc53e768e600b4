//! One part of the file: what is taken out of it, and what is left.

use std::time::Duration;

use super::known::reason;
pub(super) use super::node::Setting;
use super::node::{Node, Value};
use super::text::{duration, unresolved};
use super::{Fault, Ignored, fault};

/// In milliseconds; no time here is longer.
const DAY: u32 = 86_400_000;

pub(super) type Read<T> = fn(&Setting) -> Result<T, Fault>;

/// The settings of a section that were not read yet.
pub(super) struct Section {
    /// `singleServerConfig.`; nothing for the whole file.
    prefix: String,
    /// Where it stands.
    line: usize,
    settings: Vec<Setting>,
}

impl Section {
    pub(super) fn whole(document: Node) -> Result<Self, Fault> {
        Section::of(String::new(), document.line, document)
    }

    fn of(prefix: String, line: usize, node: Node) -> Result<Self, Fault> {
        let Value::Map(settings) = node.value else {
            let what = format!("{prefix}: no settings (name: value)");
            return Err(fault(node.line, what));
        };
        Ok(Section {
            prefix,
            line,
            settings,
        })
    }

    /// The setting called `key`, now with the section's name; nothing where it is `null`.
    pub(super) fn take(&mut self, key: &str) -> Option<Setting> {
        let index = self.settings.iter().position(|known| known.key == key)?;
        let mut setting = self.settings.remove(index);
        setting.key.insert_str(0, &self.prefix);
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
        let setting = self.settings.iter().find(|known| known.key == key);
        setting.map(|setting| setting.line)
    }

    /// The value of a setting, read by one of the methods of [`Setting`].
    pub(super) fn get<T>(&mut self, key: &str, read: Read<T>) -> Result<Option<T>, Fault> {
        self.take(key).as_ref().map(read).transpose()
    }

    /// Changes `field` to the value of a setting that is there.
    pub(super) fn put<T>(&mut self, key: &str, read: Read<T>, field: &mut T) -> Result<(), Fault> {
        if let Some(value) = self.get(key, read)? {
            *field = value;
        }
        Ok(())
    }

    pub(super) fn section(&mut self, key: &str) -> Result<Option<Section>, Fault> {
        let Some(setting) = self.take(key) else {
            return Ok(None);
        };
        let (line, prefix) = (setting.line, format!("{}.", setting.key));
        Section::of(prefix, line, setting.node).map(Some)
    }

    /// The remaining settings must be known to have no meaning here.
    pub(super) fn finish(self, ignored: &mut Vec<Ignored>) -> Result<(), Fault> {
        for Setting { key, line, node } in self.settings {
            let reason = reason(&key);
            let key = format!("{}{key}", self.prefix);
            let Some(reason) = reason else {
                let what = format!("{key}: Redisson has no such setting here");
                return Err(fault(line, what));
            };
            if !matches!(node.value, Value::Null) {
                ignored.push(Ignored::new(line, key, reason));
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

    /// In milliseconds.
    pub(super) fn time(&self) -> Result<Duration, Fault> {
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

    /// The longest pause of a strategy for delays.
    pub(super) fn delay(&self) -> Result<Duration, Fault> {
        let wrong = || self.wrong("no delay: {delay: PT1S}, or {baseDelay: PT1S, maxDelay: PT2S}");
        let Value::Map(entries) = &self.node.value else {
            return Err(wrong());
        };
        let entry = |key: &str| entries.iter().find(|entry| entry.key == key);
        let longest = entry("maxDelay").or(entry("delay"));
        let text = longest.and_then(|entry| text_of(&entry.node).ok());
        text.and_then(|text| duration(&text)).ok_or_else(wrong)
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
