//! What the server answers to lone calls, and to the question about a lost answer.

use crate::transport::Value;

/// What has become of a lone call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Whether it was carried out; if not, there was too little to take.
    pub(crate) done: bool,
    /// The counter behind it, where that was learned.
    pub(crate) available: Option<i64>,
    /// How many listeners the channel has, where that was learned.
    pub(crate) listeners: Option<u64>,
}

/// What has become of each of `count` calls; of one that was no usual case, nothing. `None` for an answer that makes
/// no sense.
pub(super) fn read(value: &Value, count: usize) -> Option<Vec<Option<Outcome>>> {
    match value {
        Value::Array(values) if values.len() == 2 * count => {
            values.chunks_exact(2).map(read_one).collect()
        }
        _ => None,
    }
}

fn read_one(pair: &[Value]) -> Option<Option<Outcome>> {
    match *pair {
        [Value::Nil, Value::Int(_)] => Some(None),
        [Value::Int(available), Value::Int(listeners)] => Some(Some(Outcome {
            done: available >= 0,
            available: Some(available.max(-1 - available)),
            listeners: u64::try_from(listeners).ok(),
        })),
        _ => None,
    }
}

/// What has become of a call whose answer was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Answered(Outcome),
    /// It was not carried out, and will not be.
    NotDone,
    /// Somebody else has written to the record.
    Unknown,
}

/// What has become of the call at `index`.
pub(super) fn read_fate(value: &Value, index: usize) -> Fate {
    let Value::BulkString(fates) = value else {
        return Fate::Unknown;
    };
    let answered = |done| {
        Fate::Answered(Outcome {
            done,
            available: None,
            listeners: None,
        })
    };
    match fates.get(index) {
        Some(b'1') => answered(true),
        Some(b'0') => answered(false),
        Some(b'-') => Fate::NotDone,
        None if fates.is_empty() => Fate::NotDone,
        _ => Fate::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(available: i64, listeners: i64) -> Option<Option<Outcome>> {
        read_one(&[Value::Int(available), Value::Int(listeners)])
    }

    fn numbers(numbers: &[i64]) -> Value {
        Value::Array(numbers.iter().copied().map(Value::Int).collect())
    }

    #[test]
    fn two_numbers_tell_what_became_of_a_call() {
        let outcome = |done, available, listeners| {
            let outcome = Outcome {
                done,
                available: Some(available),
                listeners,
            };
            Some(Some(outcome))
        };
        assert_eq!(pair(0, -1), outcome(true, 0, None));
        assert_eq!(pair(7, 2), outcome(true, 7, Some(2)));
        assert_eq!(pair(-1, -1), outcome(false, 0, None));
        assert_eq!(pair(-4, -1), outcome(false, 3, None));
        assert_eq!(read_one(&[Value::Nil, Value::Int(-1)]), Some(None));
    }

    #[test]
    fn an_answer_that_makes_no_sense_is_none() {
        assert_eq!(read(&numbers(&[1, -1]), 2), None);
        assert_eq!(read(&Value::Int(1), 1), None);
        assert_eq!(
            read(&Value::Array(vec![Value::Int(1), Value::Nil]), 1),
            None
        );
    }

    #[test]
    fn a_letter_tells_what_became_of_a_call_whose_answer_was_lost() {
        let answered = |done| {
            Fate::Answered(Outcome {
                done,
                available: None,
                listeners: None,
            })
        };
        let fates = Value::BulkString(b"1-0".to_vec());
        let all = [0, 1, 2, 3].map(|index| read_fate(&fates, index));
        let expected = [
            answered(true),
            Fate::NotDone,
            answered(false),
            Fate::Unknown,
        ];
        assert_eq!(all, expected);
        assert_eq!(read_fate(&Value::BulkString(Vec::new()), 1), Fate::NotDone);
        let foreign = Value::BulkString(b"?".to_vec());
        assert_eq!(
            [0, 1].map(|index| read_fate(&foreign, index)),
            [Fate::Unknown; 2]
        );
        assert_eq!(read_fate(&Value::Int(1), 0), Fate::Unknown);
    }

    proptest::proptest! {
        #[test]
        fn any_value_is_read(value in crate::any_value::value(), count in 0_usize..70) {
            if let Some(outcomes) = read(&value, count) {
                assert_eq!(outcomes.len(), count);
            }
            read_fate(&value, count);
        }
    }
}
