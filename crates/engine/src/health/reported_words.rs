//! How words are found in the texts that controllers report.

/// Most characters of a text that are looked at, and shown.
const LOOKED_AT: usize = 1024;

/// Whether a text has one of the parts, in lower case and without separators. The first letter
/// of a word is not the end of one: `ClusterQueueDoesNotExist` is not `queued`.
pub fn has_part(text: &str, parts: &[&str]) -> bool {
    let word = plain_text(text);
    let ends = parts.iter().flat_map(|part| word.match_indices(*part));
    let ends: Vec<usize> = ends.map(|(at, hit)| at + hit.len() - 1).collect();
    !ends.is_empty() && {
        let firsts = firsts(text);
        ends.iter().any(|end| !firsts.contains(end))
    }
}

/// Where words begin in what [`plain_text`] makes of a text.
fn firsts(text: &str) -> Vec<usize> {
    let (mut firsts, mut at, mut before) = (Vec::new(), 0, ' ');
    for c in text.chars() {
        if c.is_alphanumeric() {
            if !before.is_alphanumeric() || (c.is_uppercase() && before.is_lowercase()) {
                firsts.push(at);
            }
            at += c.to_lowercase().map(char::len_utf8).sum::<usize>();
        }
        before = c;
    }
    firsts
}

/// In lower case, with letters and digits only.
pub fn plain_text(word: &str) -> String {
    let kept = word.chars().filter(|c| c.is_alphanumeric()).take(LOOKED_AT);
    kept.flat_map(char::to_lowercase).collect()
}

/// Whether a text ends with a word, and not only with its letters: `HEALTH_ERR`, `LinkLost`.
pub fn is_last_word(text: &str, word: &str) -> bool {
    let text = text.trim_end_matches(|c: char| !c.is_alphanumeric());
    let Some((rest, last)) =
        text.len().checked_sub(word.len()).and_then(|at| text.split_at_checked(at))
    else {
        return false;
    };
    let begins = |c: char| c.is_lowercase() || c.is_ascii_digit();
    let is_capital = last.starts_with(char::is_uppercase);
    last.eq_ignore_ascii_case(word)
        && rest
            .chars()
            .next_back()
            .is_none_or(|before| !before.is_alphanumeric() || (is_capital && begins(before)))
}

/// Whether a text begins with a word: `ERROR, cannot find it`.
pub fn is_first_word(text: &str, word: &str) -> bool {
    let first = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    first.eq_ignore_ascii_case(word)
}

/// A text as it is shown.
pub fn cut_text(text: &str) -> String {
    text.chars().take(LOOKED_AT).collect()
}
