//! Duplicate keys.

use std::fmt;

/// A duplicate key of a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// The path of the key, such as `metadata.labels.app`.
    pub path: String,
    /// Line of the later key, counted from 1 in the whole text.
    pub line: usize,
}

impl fmt::Display for Repeated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}: key {:?} is duplicated, the last value is used; remove the other",
            self.line, self.path
        )
    }
}
