//! The regular expressions of `test("…")` that mean the same to all engines.

use std::sync::Arc;

use regex::{Regex, RegexBuilder};

/// Longest one, in bytes.
const MAX_LENGTH: usize = 200;

/// Most memory of a compiled one, in bytes.
const MAX_SIZE: usize = 1 << 17;

/// A regular expression of literals, sets of characters, `.`, `*`, `+`, `?`, `|`, groups, `^` and
/// `$`. It takes a time in proportion to the text, whatever is searched.
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
        let is_known = |c: char| c.is_ascii_alphanumeric() || " _/.-^$*+?|()[]:,=@".contains(c);
        let has_same_meaning = text.chars().all(is_known)
            && !["(?", "[[", "[:", "--", "**", "*+", "*?", "++", "+*", "+?", "?*", "?+", "??"]
                .iter()
                .any(|other| text.contains(other));
        if text.len() > MAX_LENGTH || !has_same_meaning {
            return None;
        }
        let mut builder = RegexBuilder::new(text);
        let regex = builder.size_limit(MAX_SIZE).dfa_size_limit(MAX_SIZE).build().ok()?;
        Some(Self { text: text.to_owned(), regex: Arc::new(regex) })
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// How often a byte is looked at, at most: once in each state.
    pub(super) fn cost(&self) -> usize {
        1 + self.text.len()
    }
}
