//! Scripts: the cache, and Lua 5.1 with the commands of the server.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use mlua::{Function, Lua, LuaOptions, LuaString, MultiValue, StdLib, Table, Value};

use super::connection::ConnectionId;
use super::core::{Core, Script};
use super::number;
use super::reply::{Outcome, Refusal, Reply};
use super::struct_library;

/// The name of each script in the messages of Redis.
const CHUNK: &str = "@user_script";

/// The deepest nesting of an answer. A deeper answer is an error, which no script is known to cause.
const DEEPEST: usize = 100;

/// The scripts that a server knows, and the Lua state that runs them.
pub struct Scripts {
    lua: Lua,
    compile: Function,
    run: Function,
    cache: BTreeMap<String, Function>,
    core: Rc<RefCell<Core>>,
}

impl Scripts {
    pub fn new(core: Rc<RefCell<Core>>) -> Scripts {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::default()).expect("Lua starts");
        let (compile, run) = prelude(&lua, &core).expect("the prelude is sound");
        Scripts {
            lua,
            compile,
            run,
            cache: BTreeMap::new(),
            core,
        }
    }

    /// Forgets all scripts.
    pub fn flush(&mut self) {
        self.cache.clear();
    }

    /// Carries out `EVAL`, `EVALSHA` or a subcommand of `SCRIPT`.
    pub fn execute(&mut self, connection: ConnectionId, name: &str, words: &[&[u8]]) -> Outcome {
        match name {
            "eval" => {
                let keys = key_count(words)?;
                let digest = self.load(words[1])?;
                self.call(connection, &digest, keys, &words[3..])
            }
            "evalsha" => {
                const MISSING: &str = "NOSCRIPT No matching script. Please use EVAL.";
                if words[1].len() != 40 {
                    return Err(MISSING.into());
                }
                let keys = key_count(words)?;
                let digest = String::from_utf8_lossy(words[1]).to_ascii_lowercase();
                if !self.cache.contains_key(&digest) {
                    return Err(MISSING.into());
                }
                self.call(connection, &digest, keys, &words[3..])
            }
            "script|flush" => {
                if words.len() > 2 {
                    return Err("ERR SCRIPT FLUSH only support SYNC|ASYNC option".into());
                }
                self.flush();
                Ok(Reply::ok())
            }
            _ => unreachable!("no command of scripts: {name}"),
        }
    }

    /// Puts a script in the cache and returns its digest.
    fn load(&mut self, source: &[u8]) -> Result<String, Refusal> {
        let digest = sha1_smol::Sha1::from(source).digest().to_string();
        if !self.cache.contains_key(&digest) {
            let text = self.lua.create_string(source);
            let compiled = text.and_then(|text| self.compile.call(text));
            let function = match compiled.expect("the prelude throws nothing") {
                (Some(function), _) => function,
                (None, problem) => {
                    let problem: Option<LuaString> = problem;
                    let mut text = b"ERR Error compiling script (new function): ".to_vec();
                    text.extend_from_slice(&problem.expect("why it does not compile").as_bytes());
                    return Err(Refusal(text));
                }
            };
            self.cache.insert(digest.clone(), function);
        }
        Ok(digest)
    }

    fn call(
        &mut self,
        connection: ConnectionId,
        digest: &str,
        keys: usize,
        arguments: &[&[u8]],
    ) -> Outcome {
        self.core.borrow_mut().script = Some(Script {
            connection,
            has_written: false,
        });
        let (keys, arguments) = arguments.split_at(keys);
        let result = self.run_script(&self.cache[digest], keys, arguments);
        let mut core = self.core.borrow_mut();
        core.script = None;
        core.keys.commit();
        match result.expect("the prelude catches what scripts do") {
            (true, value) => reply_of(&value, 0),
            (false, problem) => Err(failure_of(&problem, digest)),
        }
    }

    fn run_script(
        &self,
        script: &Function,
        keys: &[&[u8]],
        arguments: &[&[u8]],
    ) -> mlua::Result<(bool, Value)> {
        let texts = |words: &[&[u8]]| {
            let texts = words.iter().map(|word| self.lua.create_string(word));
            self.lua
                .create_sequence_from(texts.collect::<mlua::Result<Vec<_>>>()?)
        };
        self.run.call((script, texts(keys)?, texts(arguments)?))
    }
}

/// How many of the words after the number are keys.
fn key_count(words: &[&[u8]]) -> Result<usize, Refusal> {
    let count = number::check_integer(words[2])?;
    let room = words.len() - 3;
    match usize::try_from(count) {
        Ok(count) if count <= room => Ok(count),
        Ok(_) => Err("ERR Number of keys can't be greater than number of args".into()),
        Err(_) if count > 0 => {
            Err("ERR Number of keys can't be greater than number of args".into())
        }
        Err(_) => Err("ERR Number of keys can't be negative".into()),
    }
}

fn prelude(lua: &Lua, core: &Rc<RefCell<Core>>) -> mlua::Result<(Function, Function)> {
    let (core, same_core) = (Rc::clone(core), Rc::clone(core));
    let call =
        lua.create_function(
            move |lua, arguments: MultiValue| match command(&core, &arguments) {
                Reply::Error(text) => Err(mlua::Error::external(Thrown(text))),
                reply => value_of(lua, &reply),
            },
        )?;
    let protected_call = lua.create_function(move |lua, arguments: MultiValue| {
        value_of(lua, &command(&same_core, &arguments))
    })?;
    let line = lua.create_function(|lua, ()| Ok(line_of_script(lua)))?;
    let refusal =
        lua.create_function(
            |lua, problem: mlua::Error| match problem.downcast_ref::<Thrown>() {
                Some(Thrown(text)) => lua.create_string(text),
                None => Err(problem),
            },
        )?;
    let digest = lua.create_function(|_, text: LuaString| {
        Ok(sha1_smol::Sha1::from(&*text.as_bytes())
            .digest()
            .to_string())
    })?;
    let pack = lua.create_function(struct_library::pack)?;
    lua.load(include_str!("prelude.lua"))
        .set_name("=prelude")
        .call((call, protected_call, line, refusal, digest, pack))
}

/// The error that `redis.call` throws.
#[derive(Debug)]
struct Thrown(Vec<u8>);

impl std::error::Error for Thrown {}

impl fmt::Display for Thrown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

/// The line of the innermost function that belongs to a script.
fn line_of_script(lua: &Lua) -> Option<usize> {
    const DEEPEST_STACK: usize = 250;
    (0..DEEPEST_STACK).find_map(|level| {
        lua.inspect_stack(level, |debug| {
            let of_script = debug.source().source.as_deref() == Some(CHUNK);
            if of_script {
                debug.current_line()
            } else {
                None
            }
        })?
    })
}

/// A command of a script.
fn command(core: &RefCell<Core>, arguments: &MultiValue) -> Reply {
    let refused = |text: &str| Reply::Error(text.into());
    if arguments.is_empty() {
        return refused("ERR Please specify at least one argument for this redis lib call");
    }
    let mut words = Vec::with_capacity(arguments.len());
    for argument in arguments {
        words.push(match argument {
            Value::String(text) => text.as_bytes().to_vec(),
            Value::Integer(number) => number::text(*number as f64).into_bytes(),
            Value::Number(number) => number::text(*number).into_bytes(),
            _ => return refused("ERR Lua redis lib command arguments must be strings or integers"),
        });
    }
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    core.borrow_mut().carry_out_in_script(&words).into()
}

/// An answer as Lua sees it.
fn value_of(lua: &Lua, reply: &Reply) -> mlua::Result<Value> {
    let named = |name: &str, text: &[u8]| {
        let table = lua.create_table()?;
        table.raw_set(name, lua.create_string(text)?)?;
        Ok(Value::Table(table))
    };
    match reply {
        Reply::Status(word) => named("ok", word),
        Reply::Error(text) => named("err", text),
        Reply::Int(number) => Ok(Value::Number(*number as f64)),
        Reply::Bulk(bytes) => Ok(Value::String(lua.create_string(bytes)?)),
        Reply::Nil => Ok(Value::Boolean(false)),
        Reply::Array(items) => {
            let items = items.iter().map(|item| value_of(lua, item));
            let items = items.collect::<mlua::Result<Vec<_>>>()?;
            Ok(Value::Table(lua.create_sequence_from(items)?))
        }
    }
}

/// Turns the value that a script has returned into an answer.
fn reply_of(value: &Value, depth: usize) -> Outcome {
    if depth == DEEPEST {
        return Err("ERR reached lua stack limit".into());
    }
    Ok(match value {
        Value::String(text) => Reply::bulk(text.as_bytes().to_vec()),
        Value::Boolean(true) => Reply::Int(1),
        Value::Integer(number) => Reply::Int(*number),
        Value::Number(number) => Reply::Int(number::truncated(*number)),
        Value::Table(table) => {
            if let Some(text) = field(table, "err") {
                return Err(Refusal(text));
            }
            if let Some(word) = field(table, "ok") {
                let printable = |byte| {
                    if matches!(byte, b'\r' | b'\n') {
                        b' '
                    } else {
                        byte
                    }
                };
                return Ok(Reply::Status(word.into_iter().map(printable).collect()));
            }
            let mut items = Vec::new();
            for index in 1.. {
                match table.raw_get::<Value>(index) {
                    Ok(Value::Nil) | Err(_) => break,
                    Ok(item) => items.push(reply_of(&item, depth + 1).into()),
                }
            }
            Reply::Array(items)
        }
        _ => Reply::Nil,
    })
}

/// A text in a table. Redis would take a number there as a text, too.
fn field(table: &Table, name: &str) -> Option<Vec<u8>> {
    match table.raw_get::<Value>(name) {
        Ok(Value::String(text)) => Some(text.as_bytes().to_vec()),
        _ => None,
    }
}

/// The error that ended a script.
fn failure_of(problem: &Value, digest: &str) -> Refusal {
    let Value::Table(table) = problem else {
        unreachable!("the prelude makes each error a table");
    };
    // A real server of this version crashes where there is no text.
    let mut text = field(table, "err").expect("an error thrown by a script has a text");
    if let Ok(Some(line)) = table.raw_get::<Option<usize>>("line") {
        let place = format!(" script: {digest}, on {CHUNK}:{line}.");
        text.extend_from_slice(place.as_bytes());
    }
    Refusal(text)
}
