//! What a server answers.

/// The answer to a command; errors are [`Refusal`](super::Refusal)s.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// Nothing is there.
    Nil,
    Int(i64),
    BulkString(Vec<u8>),
    /// A word of the server's own: `OK`, the type of a key.
    SimpleString(String),
    Array(Vec<Value>),
    /// What none of our commands is answered with.
    Other,
}

impl Value {
    /// Whether it is that of a script that has changed nothing: those that replicas are waited for put it into an array then.
    pub(super) fn is_of_no_change(&self) -> bool {
        matches!(self, Value::Array(items) if items.len() == 1)
    }

    /// The answer of a script that replicas are waited for.
    pub(crate) fn bare(self) -> Self {
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
            redis::Value::BulkString(bytes) => Value::BulkString(bytes),
            redis::Value::SimpleString(word) => Value::SimpleString(word),
            redis::Value::Okay => Value::SimpleString("OK".to_owned()),
            redis::Value::Array(items) => {
                Value::Array(items.into_iter().map(Value::from).collect())
            }
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
            redis::Value::Array(vec![redis::Value::Int(1), redis::Value::Double(1.0)]),
        ]);
        let ok = Value::SimpleString("OK".to_owned());
        let inner = Value::Array(vec![Value::Int(1), Value::Other]);
        assert_eq!(Value::from(answer), Value::Array(vec![ok, inner]));
    }
}
