//! The patterns of rules.

/// Whether `text` matches a pattern in which `*` is any text and `?` one character. Compares bytes:
/// each object of a kind without rules is compared with all patterns.
pub fn glob_matches(pattern: &str, text: &str) -> bool {
    let (pattern, bytes) = (pattern.as_bytes(), text.as_bytes());
    let after = |at: usize| {
        (at + 1..bytes.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(bytes.len())
    };
    let (mut p, mut t) = (0, 0);
    // Where to go on when a later part does not match: behind the last `*`, one further.
    let mut back: Option<(usize, usize)> = None;
    while t < bytes.len() {
        match pattern.get(p) {
            Some(b'*') => {
                back = Some((p + 1, t));
                p += 1;
            }
            Some(b'?') => {
                p += 1;
                t = after(t);
            }
            Some(&byte) if byte == bytes[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((next, from)) = back else { return false };
                let from = after(from);
                back = Some((next, from));
                p = next;
                t = from;
            }
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}
