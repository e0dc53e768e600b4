//! The `struct` library of scripts, for integers: `b`, `h`, `i`, `l` and `I8` and the like, big-endian (`>`) or
//! little-endian.

use mlua::{Lua, MultiValue, Value};

use super::number;

/// One integer of a format.
struct Field {
    size: usize,
    big: bool,
    signed: bool,
}

/// Reads a format; `None` where it has what is not modelled.
fn fields(format: &[u8]) -> Option<Vec<Field>> {
    let mut found = Vec::new();
    let mut big = false;
    let mut rest = format.iter().copied().peekable();
    while let Some(letter) = rest.next() {
        let mut size = match letter.to_ascii_lowercase() {
            b'>' | b'<' => {
                big = letter == b'>';
                continue;
            }
            b' ' => continue,
            b'b' => 1,
            b'h' => 2,
            b'i' => 4,
            b'l' => 8,
            _ => return None,
        };
        if letter.eq_ignore_ascii_case(&b'i') {
            let mut digits = 0;
            while let Some(digit) = rest.next_if(u8::is_ascii_digit) {
                digits = digits * 10 + usize::from(digit - b'0');
                size = digits;
            }
        }
        if !(1..=8).contains(&size) {
            return None;
        }
        found.push(Field {
            size,
            big,
            signed: letter.is_ascii_lowercase(),
        });
    }
    Some(found)
}

fn refused(lua: &Lua, text: &str) -> mlua::Result<MultiValue> {
    Ok([
        Value::Boolean(false),
        Value::String(lua.create_string(text)?),
    ]
    .into_iter()
    .collect())
}

fn fine(values: Vec<Value>) -> MultiValue {
    std::iter::once(Value::Boolean(true))
        .chain(values)
        .collect()
}

/// `true` and the text, or `false` and what is wrong.
pub fn pack(
    lua: &Lua,
    (format, numbers): (mlua::LuaString, mlua::Variadic<Value>),
) -> mlua::Result<MultiValue> {
    let Some(fields) = fields(&format.as_bytes()) else {
        return refused(lua, "the model has not this format");
    };
    let mut packed = Vec::new();
    for (index, field) in fields.iter().enumerate() {
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
        let bytes = bits(number).to_le_bytes();
        let bytes = &bytes[..field.size];
        if field.big {
            packed.extend(bytes.iter().rev());
        } else {
            packed.extend(bytes);
        }
    }
    Ok(fine(vec![Value::String(lua.create_string(packed)?)]))
}

/// A double as an unsigned integer, as the processor converts it.
fn bits(number: f64) -> u64 {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    if number >= HALF {
        number::truncated(number - HALF).cast_unsigned() ^ (1 << 63)
    } else {
        number::truncated(number).cast_unsigned()
    }
}

/// `true`, the numbers and the place behind them, or `false` and what is wrong.
pub fn unpack(
    lua: &Lua,
    (format, text): (mlua::LuaString, mlua::LuaString),
) -> mlua::Result<MultiValue> {
    let Some(fields) = fields(&format.as_bytes()) else {
        return refused(lua, "the model has not this format");
    };
    let text = text.as_bytes();
    let mut place = 0;
    let mut values = Vec::new();
    for field in fields {
        let Some(bytes) = text.get(place..place + field.size) else {
            return refused(lua, "bad argument #2 to 'unpack' (data string too short)");
        };
        place += field.size;
        let join = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        let value = if field.big {
            bytes.iter().fold(0, join)
        } else {
            bytes.iter().rev().fold(0, join)
        };
        values.push(Value::Number(if field.signed {
            let unused = 64 - 8 * u32::try_from(field.size).expect("eight at the most");
            ((value << unused).cast_signed() >> unused) as f64
        } else {
            value as f64
        }));
    }
    values.push(Value::Number((place + 1) as f64));
    Ok(fine(values))
}
