//! The regular expressions of `test("…")` that mean the same to all engines.

use std::sync::Arc;

use regex_lite::{Regex, RegexBuilder};

/// Longest one, in bytes.
pub(super) const MAX_LENGTH: usize = 64;

/// Most memory of a compiled one, in bytes.
const MAX_SIZE: usize = 1 << 14;

/// How much longer a byte of a text may take for each byte of the expression, beside a function
/// that compares bytes.
const COST: usize = 128;

/// A regular expression of literals, sets of characters, `.`, `*`, `+`, `?`, `|`, groups without
/// groups in them, `^` and `$`. It takes a time in proportion to the text, whatever is searched;
/// and it is compiled in microseconds, since each comparison does that for all rules.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    text: String,
    regex: Arc<Regex>,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Pattern {
    /// `None` when it is not of this form: flags, counts, classes by name, sets of sets.
    pub(super) fn new(text: &str) -> Option<Self> {
        let mut builder = RegexBuilder::new(&without_captures(text)?);
        let regex = builder.size_limit(MAX_SIZE).build().ok()?;
        Some(Self { text: text.to_owned(), regex: Arc::new(regex) })
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// How many bytes a function that compares them would look at in the time of one, at most.
    pub(super) fn cost(&self) -> usize {
        COST * (1 + self.text.len())
    }
}

/// The same with groups that remember nothing; `None` when it is not of the form.
fn without_captures(text: &str) -> Option<String> {
    if text.len() > MAX_LENGTH {
        return None;
    }
    let mut whole = String::new();
    let (mut is_set, mut is_group) = (false, false);
    let mut before = ' ';
    for char in text.chars() {
        let is_repetition = "*+?".contains(char);
        let is_known = match char {
            ' ' | '_' | '/' | '.' | '-' | '^' | '$' | '|' | ':' | ',' | '=' | '@' => {
                // A difference of sets.
                !(is_set && char == '-' && before == '-')
            }
            '*' | '+' | '?' => is_set || !"*+?(".contains(before),
            '[' => !std::mem::replace(&mut is_set, true),
            ']' => std::mem::replace(&mut is_set, false),
            '(' if !is_set => !std::mem::replace(&mut is_group, true),
            ')' if !is_set => std::mem::replace(&mut is_group, false),
            '(' | ')' => true,
            char => char.is_ascii_alphanumeric(),
        };
        if !is_known {
            return None;
        }
        whole.push(char);
        if char == '(' && !is_set {
            whole.push_str("?:");
        }
        // In a set it repeats nothing.
        before = if is_set && is_repetition { ' ' } else { char };
    }
    Some(whole)
}
