//! Variables in such a file.

/// Puts values in place of `${NAME}` and `${NAME:-default}`, as Redisson does before it reads anything. A variable that is not
/// there and has no default stays as it is.
pub(super) fn substitute(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut done = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        // No variable ends behind the last brace: each beginning before it is looked at once.
        let (mut rest, tail) = line.split_at(line.rfind('}').map_or(0, |last| last + 1));
        while let Some((before, behind)) = rest.split_once("${") {
            done.push_str(before);
            let replaced = variable(behind).and_then(|(name, default, rest)| {
                let value = value(name).or_else(|| default.map(str::to_owned))?;
                Some((value, rest))
            });
            let (value, behind) = replaced.unwrap_or_else(|| ("${".to_owned(), behind));
            done.push_str(&value);
            rest = behind;
        }
        done.push_str(rest);
        done.push_str(tail);
    }
    done
}

/// The variable that `text` still has.
pub(super) fn unresolved(text: &str) -> Option<&str> {
    let mut beginnings = text.split("${").skip(1);
    beginnings.find_map(|behind| variable(behind).map(|(name, ..)| name))
}

/// The variable that begins behind its `${`: name, default, and what stands behind it.
fn variable(text: &str) -> Option<(&str, Option<&str>, &str)> {
    let known = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let (name, rest) = text.split_at(
        text.find(|c: char| !known(c))
            .filter(|length| *length > 0)?,
    );
    match rest.strip_prefix(":-") {
        Some(rest) => {
            let (default, rest) = rest.split_once('}')?;
            Some((name, Some(default), rest))
        }
        None => Some((name, None, rest.strip_prefix('}')?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_once() {
        let value = |name: &str| match name {
            "HOST" => Some("h${PORT}".to_owned()),
            "redis.port" => Some("7".to_owned()),
            _ => None,
        };
        for (text, expected) in [
            ("redis://${HOST}:${redis.port}", "redis://h${PORT}:7"),
            ("${NONE:-6379}/${HOST:-x}", "6379/h${PORT}"),
            ("${NONE:-redis://h:1}", "redis://h:1"),
            ("${NONE:-}", ""),
            ("${NONE} $HOST ${HO ST} ${", "${NONE} $HOST ${HO ST} ${"),
        ] {
            assert_eq!(substitute(text, value), expected, "{text}");
        }
        assert_eq!(unresolved("redis://${NONE}:1"), Some("NONE"));
        assert_eq!(unresolved("${ ${NONE}"), Some("NONE"));
        assert_eq!(unresolved("a$b{c} ${} ${x y}"), None);
    }

    /// This would take hours if each beginning looked for its end.
    #[test]
    fn many_beginnings_are_looked_at_once() {
        for beginning in ["${", "${a", "${a:-", "${:-"] {
            let text = beginning.repeat(1_000_000);
            assert!(substitute(&text, |_| None) == text, "{beginning}");
            let ended = format!("{text}}}");
            assert!(
                substitute(&ended, |_| None).len() <= ended.len(),
                "{beginning}"
            );
        }
    }
}
