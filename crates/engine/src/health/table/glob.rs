//! The patterns of rules.

/// Whether `text` matches a pattern in which `*` is any text and `?` one character.
pub fn glob_matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where to go on when a later part does not match: behind the last `*`, one further.
    let mut back: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                back = Some((p + 1, t));
                p += 1;
            }
            Some(&c) if c == '?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((after, from)) = back else { return false };
                back = Some((after, from + 1));
                p = after;
                t = from + 1;
            }
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}
