//! Answers of a server, in the types of RESP2 with either protocol: by RESP3 some answers have types of their own.

/// The answer to a command; see [`Client::ask`](crate::Client::ask). An error is a refusal, and no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value {
    /// There is nothing.
    Nil,
    /// A whole number.
    Int(i64),
    /// A string, of the server's own words too: `OK`, the type of a key.
    Bytes(Vec<u8>),
    /// Several answers.
    Array(Vec<Value>),
    /// Something that is none of these.
    Other,
}

impl Value {
    /// Whether it is this text.
    pub(crate) fn is(&self, text: &str) -> bool {
        matches!(self, Value::Bytes(bytes) if bytes == text.as_bytes())
    }

    /// Whether it is that of a script that has changed nothing: those that replicas are waited for put it into an array then.
    pub(super) fn is_of_no_change(&self) -> bool {
        matches!(self, Value::Array(items) if items.len() == 1)
    }

    /// The answer of a script that replicas are waited for.
    pub(super) fn bare(self) -> Self {
        match self {
            Value::Array(mut items) if items.len() == 1 => items.swap_remove(0),
            value => value,
        }
    }
}

impl From<redis::Value> for Value {
    fn from(value: redis::Value) -> Self {
        match value {
            redis::Value::Nil => Value::Nil,
            redis::Value::Int(number) => Value::Int(number),
            redis::Value::BulkString(bytes) => Value::Bytes(bytes),
            redis::Value::SimpleString(word) => Value::Bytes(word.into_bytes()),
            redis::Value::Okay => Value::Bytes(b"OK".to_vec()),
            redis::Value::Array(items) => {
                Value::Array(items.into_iter().map(Value::from).collect())
            }
            redis::Value::Set(items) => Value::Array(items.into_iter().map(Value::from).collect()),
            redis::Value::Map(pairs) => {
                let items = pairs.into_iter().flat_map(|(key, value)| [key, value]);
                Value::Array(items.map(Value::from).collect())
            }
            redis::Value::Double(number) => Value::Bytes(number.to_string().into_bytes()),
            redis::Value::Boolean(yes) => Value::Int(yes.into()),
            redis::Value::VerbatimString { text, .. } => Value::Bytes(text.into_bytes()),
            redis::Value::Attribute { data, .. } => Value::from(*data),
            _ => Value::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_command_is_answered_with_is_no_answer() {
        let answer = redis::Value::Array(vec![
            redis::Value::Okay,
            redis::Value::Array(vec![
                redis::Value::Int(1),
                redis::Value::BigNumber(b"1".to_vec()),
            ]),
        ]);
        let ok = Value::Bytes(b"OK".to_vec());
        let inner = Value::Array(vec![Value::Int(1), Value::Other]);
        assert_eq!(Value::from(answer), Value::Array(vec![ok, inner]));
    }

    #[test]
    fn an_answer_by_resp3_is_the_same_as_by_resp2() {
        let text = |text: &str| Value::Bytes(text.as_bytes().to_vec());
        let read = |bytes: &[u8]| Value::from(redis::parse_redis_value(bytes).expect("an answer"));
        for (by_resp3, by_resp2) in [
            ("_\r\n", Value::Nil),
            (",1.5\r\n", text("1.5")),
            (",1700000000123\r\n", text("1700000000123")),
            (",inf\r\n", text("inf")),
            ("#t\r\n", Value::Int(1)),
            ("#f\r\n", Value::Int(0)),
            ("=8\r\ntxt:a: 1\r\n", text("a: 1")),
            ("~1\r\n:7\r\n", Value::Array(vec![Value::Int(7)])),
            (
                "%1\r\n$1\r\nk\r\n,2\r\n",
                Value::Array(vec![text("k"), text("2")]),
            ),
        ] {
            assert_eq!(read(by_resp3.as_bytes()), by_resp2, "{by_resp3:?}");
        }
    }
}
