//! `struct.pack` of scripts, for big-endian unsigned integers: `>I6` and the like.

use mlua::{Lua, MultiValue, Value};

use super::number;

/// How many bytes each integer of a format takes; `None` where it has what is not modelled.
fn sizes(format: &[u8]) -> Option<Vec<usize>> {
    let format = std::str::from_utf8(format).ok()?;
    let fields = format.strip_prefix(">I")?.split('I');
    let sizes = fields.map(|digits| digits.parse().ok());
    sizes.collect::<Option<Vec<usize>>>()
}

fn refused(lua: &Lua, text: &str) -> mlua::Result<MultiValue> {
    let text = lua.create_string(text)?;
    Ok([Value::Boolean(false), Value::String(text)]
        .into_iter()
        .collect())
}

/// `true` and the text, or `false` and what is wrong.
pub fn pack(
    lua: &Lua,
    (format, numbers): (mlua::LuaString, mlua::Variadic<Value>),
) -> mlua::Result<MultiValue> {
    let Some(sizes) = sizes(&format.as_bytes()) else {
        return refused(lua, "the model has not this format");
    };
    let mut packed = Vec::new();
    for (index, size) in sizes.into_iter().enumerate() {
        let number = match numbers.get(index) {
            Some(Value::Integer(number)) => *number as f64,
            Some(Value::Number(number)) => *number,
            other => {
                let found = other.map_or("no value", Value::type_name);
                let place = index + 2;
                return refused(
                    lua,
                    &format!("bad argument #{place} to 'pack' (number expected, got {found})"),
                );
            }
        };
        let bytes = number::truncated(number).to_be_bytes();
        packed.extend(&bytes[bytes.len() - size..]);
    }
    let packed = Value::String(lua.create_string(packed)?);
    Ok([Value::Boolean(true), packed].into_iter().collect())
}
