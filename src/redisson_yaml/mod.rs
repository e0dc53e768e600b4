//! Redisson's own YAML files; see [`RedissonYaml`].

mod address;
mod known;
mod node;
mod section;
mod servers;
mod text;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use crate::client::{Client, ClientBuilder};
use crate::config::NameMapper;
use crate::error::{Error, Result};
use section::Section;

/// Where Redis is and how it is spoken to, as a Java service has it in its YAML file for Redisson.
///
/// Read are the files of Redisson 3.x and 4.x: user, password, TLS and the name mapper stand in the servers' part there, and
/// beside it here; either will do. The [guide](crate::guide::from_redisson#redissons-yaml) lists the settings and their meanings here. A
/// setting that has no meaning here is [listed](Ignored), one that Redisson does not have is an error.
///
/// `${NAME}` and `${NAME:-default}` are replaced as Redisson does it: by what [`property`](Self::property) says, or by the
/// environment.
///
/// ```no_run
/// # async fn connect() -> redisson_semaphore::Result<()> {
/// use redisson_semaphore::{NameMapper, RedissonYaml};
///
/// let yaml = RedissonYaml::file("redisson.yaml")?
///     .name_mapper("com.example.ShopMapper", NameMapper::prefix("shop:"));
/// let (builder, ignored) = yaml.builder()?;
/// for setting in ignored {
///     println!("{setting}");
/// }
/// let client = builder.client_name("orders").connect().await?;
/// # drop(client);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct RedissonYaml {
    /// The file's name, for errors.
    name: String,
    text: String,
    properties: BTreeMap<String, String>,
    mappers: BTreeMap<String, NameMapper>,
}

/// A setting that is left out of account.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ignored {
    /// Where it stands in the file; the first line is 1.
    pub line: usize,
    /// The setting, as in `singleServerConfig.connectionPoolSize`.
    pub key: String,
    /// Why.
    pub reason: String,
}

impl Ignored {
    fn new(line: usize, key: String, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Ignored { line, key, reason }
    }
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ignored { line, key, reason } = self;
        write!(f, "line {line}: {key} is ignored: {reason}")
    }
}

/// An error, and its line.
#[derive(Debug)]
struct Fault {
    line: usize,
    what: String,
}

fn fault(line: usize, what: impl Into<String>) -> Fault {
    let what = what.into();
    Fault { line, what }
}

impl RedissonYaml {
    /// Reads a file, at once.
    ///
    /// # Errors
    ///
    /// [`Error::Configuration`] where it cannot be read.
    pub fn file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| Error::Configuration {
            reason: format!("{name}: {error}"),
        })?;
        Ok(RedissonYaml {
            name,
            ..Self::text(text)
        })
    }

    /// Takes what stands in such a file.
    pub fn text(text: impl Into<String>) -> Self {
        RedissonYaml {
            name: "YAML".to_owned(),
            text: text.into(),
            properties: BTreeMap::new(),
            mappers: BTreeMap::new(),
        }
    }

    /// The value of a variable, as Java takes it from the command line (`-Dname=value`). It comes before the environment's.
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.insert(name.into(), value.into());
        self
    }

    /// Sets the mapper for the class that the file names as `nameMapper`: only Redisson's default is known by itself.
    pub fn name_mapper(mut self, class: impl Into<String>, mapper: NameMapper) -> Self {
        self.mappers.insert(class.into(), mapper);
        self
    }

    /// The settings of a client, which may be changed, and what of the file is ignored.
    ///
    /// # Errors
    ///
    /// [`Error::Configuration`] with file, line and setting, where something is wrong with it. No error repeats a value.
    pub fn builder(&self) -> Result<(ClientBuilder, Vec<Ignored>)> {
        let mut ignored = Vec::new();
        let builder = self.read(&mut ignored);
        let builder = builder.map_err(|Fault { line, what }| Error::Configuration {
            reason: format!("{}:{line}: {what}", self.name),
        })?;
        ignored.sort_by_key(|setting| setting.line);
        Ok((builder, ignored))
    }

    fn read(&self, ignored: &mut Vec<Ignored>) -> std::result::Result<ClientBuilder, Fault> {
        let value = |name: &str| {
            let property = self.properties.get(name).cloned();
            property.or_else(|| std::env::var(name).ok())
        };
        let text = text::substitute(&self.text, value);
        let mut common = Section::whole(node::read(&text)?)?;
        let builder = servers::read(&mut common, &self.mappers, ignored)?;
        common.finish(known::COMMON, ignored)?;
        Ok(builder)
    }
}

impl fmt::Debug for RedissonYaml {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It may contain a password.
        f.debug_struct("RedissonYaml")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Connects as the YAML file of a Java service says it; what it says and is ignored is logged. [`RedissonYaml`] has more: a
    /// name mapper, variables, and settings that such a file does not have.
    ///
    /// # Errors
    ///
    /// [`Error::Configuration`] where something is wrong with the file, and those of
    /// [`ClientBuilder::connect`].
    pub async fn from_redisson_yaml(file: impl AsRef<Path>) -> Result<Client> {
        let yaml = RedissonYaml::file(file)?;
        let (builder, ignored) = yaml.builder()?;
        for setting in ignored {
            tracing::warn!(file = yaml.name, %setting, "in Redisson's configuration");
        }
        builder.connect().await
    }
}
